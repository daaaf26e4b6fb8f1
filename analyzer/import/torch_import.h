// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportTorchSnapshot: PyTorch's snapshot as a trace. What becomes what:
//
//   alloc            torch ALLOC, size = the block's (derived, snapshot_past.h), requested_size as stated
//   free_requested   torch FREE: allocated memory falls here, as in PyTorch's own statistics
//   free_completed   nothing, or torch FREE_COMPLETED where it comes later
//   segment_alloc/free    runtime ALLOC / FREE
//   segment_map/unmap     driver PHYSICAL_CREATE + MAP / UNMAP + PHYSICAL_RELEASE, in a range reserved at the beginning
//   oom              torch ALLOC_FAILED and OOM_DEVICE with what the device had free
//   snapshot, annotations, metadata, compile context    marks, ranges, tags
//   what was there before    a live snapshot at the beginning
//
// Each device's events bear the number of the device + 1 as their thread: the snapshot names no threads, and the
// order on a device is all that it states. Errors are the sink's, and DataLoss where the snapshot is none, or too
// large.
//
//   GPUMEM_ASSIGN_OR_RETURN(const ImportResult result, ImportTorchSnapshot(tree, bytes, "run.pickle", &memory, sink));

#ifndef GPUMEM_ANALYZER_IMPORT_TORCH_IMPORT_H_
#define GPUMEM_ANALYZER_IMPORT_TORCH_IMPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "import/import.h"
#include "import/import_memory.h"
#include "import/pickle_tree.h"
#include "trace/write/trace_writer.h"

namespace gpumem {

absl::StatusOr<ImportResult> ImportTorchSnapshot(const PickleTree& tree, uint64_t file_bytes, const std::string& path,
                                                 ImportMemory* memory, TraceWriter::Sink sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_TORCH_IMPORT_H_

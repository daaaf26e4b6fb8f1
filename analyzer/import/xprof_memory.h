// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportXprofMemory: what the tool memory_profile of XProf and TensorBoard gives as JSON (memory_profile.proto): of
// each allocator of TensorFlow or XLA samples of its total over time, its peak, and the allocations at the peak by
// operation.
//
//   {"memoryProfilePerAllocator": {"GPU_0_bfc": {"sampledTimelineSnapshots": [...], "profileSummary": {"peakStats":
//   ..},
//                                                "activeAllocations": [{"snapshotIndex": "3", "numOccurrences": "2"}],
//                                                "memoryProfileSnapshots": [...], "specialAllocations": [...]}, ...}}
//
// The tool keeps the highest of each few events, 1,000 by default; all others are not in the file. So a total is one
// block, but at the peak, where the blocks are those of the file, by operation. Totals are exact at their times, the
// peak is that of the profile, and lives are made up (ImportResult.has_lives). Numbers stand in quotes, as protobuf's
// JSON has those of 64 bits. Not thread-safe. DataLoss where it is not such a file or has no memory of a device; else
// errors are the sink's.
//
//   if (IsXprofMemory(source.Peek())) ImportXprofMemory(&source, "memory_profile.json", sink);

#ifndef GPUMEM_ANALYZER_IMPORT_XPROF_MEMORY_H_
#define GPUMEM_ANALYZER_IMPORT_XPROF_MEMORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/byte_source.h"
#include "import/import.h"

namespace gpumem {

// An object of which the first bytes name allocators' profiles.
bool IsXprofMemory(absl::string_view begin);

absl::StatusOr<ImportResult> ImportXprofMemory(ByteSource* source, const std::string& path, TraceWriter::Sink sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_XPROF_MEMORY_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Import: a trace from what others recorded: PyTorch's memory snapshots (.pickle), RMM's logs (.csv) and the memory
// events of torch.profiler's traces (.json). Which format a file has is known by its content, not its name; gzip is
// unpacked on the way. The file is data: nothing in it is run.
//
// Thread-safe. Errors as FileWindow::Open's, and DataLoss, with the file's name, where it is nothing that is known, or
// damaged: what is wrong, where, and what to do.
//
//   GPUMEM_ASSIGN_OR_RETURN(const ImportResult result, ImportFile("snapshot.pickle", sink, progress));

#ifndef GPUMEM_ANALYZER_IMPORT_IMPORT_H_
#define GPUMEM_ANALYZER_IMPORT_IMPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trace/write/trace_writer.h"

namespace gpumem {

enum class ImportFormat { kNone, kTorchSnapshot, kRmmLog, kProfilerTrace };

struct ImportResult {
  std::string format;  // Import.format
  uint64_t events = 0;
  uint32_t devices = 0;
  std::vector<std::string> notes;  // Import.notes
};

using ImportProgress = std::function<void(uint64_t done, uint64_t all)>;

// kNone for whatever else it is, traces included, and for what cannot be read.
ImportFormat FormatOf(const std::string& path);

absl::StatusOr<ImportResult> ImportFile(const std::string& path, TraceWriter::Sink sink,
                                        const ImportProgress& progress = nullptr);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_IMPORT_H_

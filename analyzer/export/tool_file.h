// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// WriteToolFile: a trace as a file of one of the memory tools that people poll PyTorch's counters with, by its name:
// gpumemoryprofiler-*, memorydebugger-*, tinytorch-*. Not thread-safe. Memory: one record a moment (moment_log.h).
//
//   GPUMEM_RETURN_IF_ERROR(WriteToolFile({"tinytorch-status", {}, ""}, loaded, sink));
//
// Fails where the trace cannot be read again.

#ifndef GPUMEM_ANALYZER_EXPORT_TOOL_FILE_H_
#define GPUMEM_ANALYZER_EXPORT_TOOL_FILE_H_

#include <string>

#include "export/exporter.h"

namespace gpumem {

struct ToolFile {
  std::string format;
  ExportRequest request;
  std::string path;  // of the file that is written, for logs that name it; "" = standard output
};

absl::Status WriteToolFile(const ToolFile& file, LoadedTrace* loaded, const TextSink& sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_TOOL_FILE_H_

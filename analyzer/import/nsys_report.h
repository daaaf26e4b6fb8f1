// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportNsysReport: a report of Nsight Systems that was exported as SQLite (nsys export --type sqlite), as a trace. The
// table is CUDA_GPU_MEMORY_USAGE_EVENTS, which nsys writes with --cuda-memory-usage=true; its columns and the numbers
// in them are those of "Exported data" in the Nsight Systems User Guide:
//
//   start  globalPid  deviceId  address  bytes  memKind  memoryOperationType  correlationId  streamId  ...
//
// Calls, threads and native stacks come from CUPTI_ACTIVITY_KIND_RUNTIME and CUDA_CALLCHAINS by correlationId, ranges
// from NVTX_EVENTS, names and sizes of GPUs from TARGET_INFO_GPU. All of it is CUDA memory: PyTorch's blocks are not
// known to nsys. A trace is of one process: the one with the most memory.
//
// DataLoss where it is no such report, or damaged; else errors are the sink's.
//
//   if (IsSqlite(source.Peek())) ImportNsysReport("report1.sqlite", sink);

#ifndef GPUMEM_ANALYZER_IMPORT_NSYS_REPORT_H_
#define GPUMEM_ANALYZER_IMPORT_NSYS_REPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/import.h"

namespace gpumem {

bool IsSqlite(absl::string_view begin);

absl::StatusOr<ImportResult> ImportNsysReport(const std::string& path, TraceWriter::Sink sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_NSYS_REPORT_H_

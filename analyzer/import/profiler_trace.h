// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportProfilerTrace: the memory events of a trace that torch.profiler exported with profile_memory=True (JSON), as a
// trace of ours:
//
//   {"ph": "i", "name": "[memory]", "ts": 1.5, "pid": 7, "tid": 7, "args": {"Addr": 139..., "Bytes": 1024,
//    "Device Id": 0, "Device Type": 1, "Total Allocated": 1024, "Total Reserved": 2097152}}
//
// Blocks on devices become torch events, what PyTorch reserved becomes kTorchReserved, and a request that failed
// ("[OutOfMemory]") a failed allocation; events of the host are left out and counted (profiler_blocks.h). The spans
// around a block become its stack (profiler_stacks.h), annotations become ranges and steps, "distributedInfo" the rank.
//
// The JSON is read as a stream: memory is that of the events and spans. DataLoss where it is not JSON, holds no memory
// event, or takes too much; else errors are the sink's.
//
//   if (IsJson(source.Peek())) ImportProfilerTrace(&source, "trace.json.gz", sink);

#ifndef GPUMEM_ANALYZER_IMPORT_PROFILER_TRACE_H_
#define GPUMEM_ANALYZER_IMPORT_PROFILER_TRACE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/byte_source.h"
#include "import/import.h"

namespace gpumem {

// Begins as a JSON object or list does: whether it is a profile is only known behind it.
bool IsJson(absl::string_view begin);

absl::StatusOr<ImportResult> ImportProfilerTrace(ByteSource* source, const std::string& path, TraceWriter::Sink sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PROFILER_TRACE_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/tool_file.h"

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "export/gpu_memory_profiler.h"
#include "export/memory_debugger.h"
#include "export/moment_log.h"
#include "export/tiny_torch.h"

namespace gpumem {
namespace {

void WriteProfilerFile(const ToolFile& file, const MomentLog& log, const LoadedTrace& loaded, const TextSink& sink) {
  const GpuMemoryProfilerEvents events = ProfilerEventsOf(log, loaded, file.request.device);
  if (file.format == "gpumemoryprofiler-json") return WriteProfilerJson(events, sink);
  if (file.format == "gpumemoryprofiler-log")
    return WriteProfilerLog(events, file.path.empty() ? "stdout" : file.path, sink);
  WriteProfilerTimeline(events, sink);
}

absl::Status WriteDebuggerFile(const ToolFile& file, const MomentLog& log, LoadedTrace* loaded, const TextSink& sink) {
  const DebuggerSnapshots snapshots = DebuggerSnapshotsOf(log, *loaded);
  if (file.format == "memorydebugger-log") return WriteDebuggerLog(snapshots, loaded, sink);
  if (file.format == "memorydebugger-snapshots") {
    WriteDebuggerSnapshots(snapshots, sink);
  } else if (file.format == "memorydebugger-comparison") {
    WriteDebuggerComparison(snapshots, sink);
  } else {
    WriteDebuggerReport(snapshots, *loaded, sink);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteToolFile(const ToolFile& file, LoadedTrace* loaded, const TextSink& sink) {
  MomentLog log(loaded, file.request.device);
  GPUMEM_RETURN_IF_ERROR(RunExport(file.request, loaded, &log, [] { return true; }).status());
  if (absl::StartsWith(file.format, "memorydebugger-")) return WriteDebuggerFile(file, log, loaded, sink);
  if (file.format == "tinytorch-log") return WriteTinyTorchLog(log, loaded, sink);
  if (file.format == "tinytorch-status") {
    WriteTinyTorchStatus(log, *loaded, sink);
  } else {
    WriteProfilerFile(file, log, *loaded, sink);
  }
  return absl::OkStatus();
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The files of the memory debugging tools memoryDebugger.py and quickMemoryDebug.py: snapshots, their comparison, the
// quick report, and the [INFO] and [WARNING] lines, with their keys, layout and Chinese texts. A snapshot is taken at
// each mark of the program, before and after each stage, and, of a program without any, at the end of each training
// step; all GPUs are in it. Pure functions but for WriteDebuggerLog, which replays the trace for the model's size.
//
//   WriteDebuggerSnapshots(DebuggerSnapshotsOf(log, *loaded), sink);

#ifndef GPUMEM_ANALYZER_EXPORT_MEMORY_DEBUGGER_H_
#define GPUMEM_ANALYZER_EXPORT_MEMORY_DEBUGGER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/text_sink.h"
#include "export/moment_log.h"

namespace gpumem {

struct DebuggerSnapshot {
  static constexpr size_t kNone = SIZE_MAX;

  std::string name;
  uint64_t since_ns = 0;
  std::vector<DeviceMoment> devices;
  size_t compared_with = kNone;  // an earlier snapshot: what was before the stage, else the one before
};

struct DebuggerSnapshots {
  std::vector<DebuggerSnapshot> snapshots;  // "initial" first, "final" last
  uint64_t start_realtime_ns = 0;           // 0 = not known
};

DebuggerSnapshots DebuggerSnapshotsOf(const MomentLog& log, const LoadedTrace& loaded);

void WriteDebuggerSnapshots(const DebuggerSnapshots& snapshots, const TextSink& sink);
void WriteDebuggerComparison(const DebuggerSnapshots& snapshots, const TextSink& sink);
void WriteDebuggerReport(const DebuggerSnapshots& snapshots, const LoadedTrace& loaded, const TextSink& sink);
// Fails where the trace cannot be read again.
absl::Status WriteDebuggerLog(const DebuggerSnapshots& snapshots, LoadedTrace* loaded, const TextSink& sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_MEMORY_DEBUGGER_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Whether a program that a trace names may be started. A trace is data, and may come from anybody: what it names is run
// only if the trace was recorded on this machine since it started (the kernel's boot id, which nobody elsewhere can
// know), and if the file belongs to root or to this user and nobody else may write it.
//
//   if (WasRecordedHere(process) && MayBeRun(process.executable)) ...
//
// Thread-safety: pure but for the files that are read. Failure: false.

#ifndef GPUMEM_PLANNER_REPLAY_RECORDED_HERE_H_
#define GPUMEM_PLANNER_REPLAY_RECORDED_HERE_H_

#include <string>

#include "replay/analysis.h"

namespace gpumem {

// 16 bytes, as traces have it; "" where the kernel does not say.
std::string BootId();

bool WasRecordedHere(const ProcessInfo& process);
bool MayBeRun(const std::string& path);

}  // namespace gpumem

#endif  // GPUMEM_PLANNER_REPLAY_RECORDED_HERE_H_

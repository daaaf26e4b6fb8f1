// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim forecast --watch` says, each as one line: of a warning as text, as JSON, as a mark in the trace and
// as variables for the command that is called. Pure functions; texts of the trace are escaped.
//
//   console->Print(WarningJson(warning));
//   AskProcess(pid, absl::StrCat("mark ", WarningMark(warning)));

#ifndef GPUMEM_ANALYZER_LIVE_WATCH_WATCH_LINE_H_
#define GPUMEM_ANALYZER_LIVE_WATCH_WATCH_LINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "answers/outlook/outlook.h"
#include "live/live_frame.h"
#include "live/watch/callbacks.h"

namespace gpumem {

struct WatchWarning {
  LiveProcess process;  // briefly: without categories and lines
  Outlook outlook;      // with its cause, where that was found
  bool is_first = true;
  int64_t realtime_ns = 0;
};

struct WatchTotals {
  uint64_t warnings = 0, callbacks = 0, failed_callbacks = 0;
};

std::string WarningText(const WatchWarning& warning);
std::string WarningJson(const WatchWarning& warning);
// "forecast warning (high, GPU 0, step 120: at this rate ...)": one line of at most 1,000 bytes.
std::string WarningMark(const WatchWarning& warning);
// "GPUMEMSHIM_RISK=high", "GPUMEMSHIM_PID=4242", ...
std::vector<std::string> WarningVariables(const WatchWarning& warning);

std::string CallbackJson(const LiveProcess& process, const CallbackReport& report);
// Of one that went wrong: "forecast callback failed (exec: exited with code 3)".
std::string CallbackMark(const CallbackReport& report);

// Empty where nothing was warned of.
std::string EndText(const WatchTotals& totals);
std::string EndJson(const WatchTotals& totals);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_WATCH_WATCH_LINE_H_

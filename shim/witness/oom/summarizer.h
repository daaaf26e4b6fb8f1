// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// GPUMEMSHIM_SUMMARY: has the analyzer write the summary of this process's trace (gpumemshim ranks --summarize) every
// so often, in a process of its own (probe_process.h). The summary is replaced as a whole, so after a kill the last one
// is there. At the end there is one more only where the user asked for summaries or no trace is kept: the program waits
// for it, at most kSummaryWaitAtEndMs. Else the next reader of the trace makes it (gpumemshim ranks).
//
// A summary takes as long as the trace is: the next one begins no earlier than fifty times that later, so that
// summaries take at most a fiftieth of a core.
//
// Of a rank that keeps no trace (`target`) a summary is also due before the file is removed that the last one ended in:
// its steps are counted on from there.
//
// Thread-safety: ConfigureSummaries before the writer starts, ForgetSummariesInChild in a forked child, all else on the
// writer thread. Failure: no summary; a line on standard error where the analyzer says why, or where it is not found
// and the user asked for summaries.
//
//   oom::ConfigureSummaries({.interval_ms = 600'000}, &control::SettingOf);
//   config.callbacks.watcher.passed = &oom::SummaryPassed;

#ifndef GPUMEM_SHIM_WITNESS_OOM_SUMMARIZER_H_
#define GPUMEM_SHIM_WITNESS_OOM_SUMMARIZER_H_

#include <cstdint>

#include "shim/witness/oom/analyzer.h"

namespace gpumemshim::oom {

// How much longer than usual the end of the process may take.
inline constexpr uint32_t kSummaryWaitAtEndMs = 10'000;
inline constexpr uint32_t kSummaryStopMs = 500;  // where none is made at the end, and one is being made

struct SummaryOptions {
  uint32_t interval_ms = 600'000;
  bool complains = false;   // where the analyzer is not found
  bool at_end = false;      // one at the end, too
  const char* target = "";  // of a rank that keeps no trace: what to write; must stay. "" = beside the trace
};

void ConfigureSummaries(const SummaryOptions& options, SettingLookup setting = nullptr);

// The trace is at `path` ("" = there is none). `last`: nothing comes after; waits for the summary, or ends one that is
// being made.
void SummaryPassed(const char* path, bool last);

void ForgetSummariesInChild();

// GPUMEMSHIM_FORECAST: `gpumemshim forecast --watch` beside the program, from the first part of the trace that is in
// the file on. All that it does, callbacks included, happens in a process of its own (probe_process.h), which ends with
// the program. What it prints comes out on standard error.
//
// Thread-safety: ConfigureForecast before the writer starts, ForgetForecastInChild in a forked child, all else on the
// writer thread. Failure: one line on standard error where the analyzer is not found; else nothing, and no forecast.
//
//   oom::ConfigureForecast(&control::SettingOf);
//   config.callbacks.watcher.passed = &oom::ForecastPassed;

// Finds the analyzer, and copies the variables of the environment that it may see.
void ConfigureForecast(SettingLookup setting = nullptr);

// The trace is at `path` ("" = there is none). `last`: nothing comes after.
void ForecastPassed(const char* path, bool last);

void ForgetForecastInChild();

}  // namespace gpumemshim::oom

#endif  // GPUMEM_SHIM_WITNESS_OOM_SUMMARIZER_H_

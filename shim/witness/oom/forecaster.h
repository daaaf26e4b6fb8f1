// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// GPUMEMSHIM_FORECAST: `gpumemshim forecast --watch` beside the program, from the first part of the trace that is in
// the file on. All that it does, callbacks included, happens in a process of its own (probe_process.h), which ends with
// the program. What it prints comes out on standard error.
//
// Thread-safety: ConfigureForecast before the writer starts, ForgetForecastInChild in a forked child, all else on the
// writer thread. Failure: one line on standard error where the analyzer is not found; else nothing, and no forecast.
//
//   oom::ConfigureForecast(&control::SettingOf);
//   config.callbacks.watcher.passed = &oom::ForecastPassed;

#ifndef GPUMEM_SHIM_WITNESS_OOM_FORECASTER_H_
#define GPUMEM_SHIM_WITNESS_OOM_FORECASTER_H_

#include "shim/witness/oom/analyzer.h"

namespace gpumemshim::oom {

// Finds the analyzer, and copies the variables of the environment that it may see.
void ConfigureForecast(SettingLookup setting = nullptr);

// The trace is at `path` ("" = there is none). `last`: nothing comes after.
void ForecastPassed(const char* path, bool last);

void ForgetForecastInChild();

}  // namespace gpumemshim::oom

#endif  // GPUMEM_SHIM_WITNESS_OOM_FORECASTER_H_

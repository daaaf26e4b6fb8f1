// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/forecaster.h"

#include <cstring>

#include "shim/witness/oom/analyzer.h"
#include "shim/witness/oom/probe_process.h"

namespace gpumemshim::oom {
namespace {

// One of a process; only ConfigureForecast and ForgetForecastInChild run elsewhere than on the writer thread, and never
// beside it.
struct Forecaster {
  Analyzer analyzer;
  ProbeProcess child;
  StandardError standard_error;
  char path[4096] = "";
  bool started = false;  // once a recording: one that ended early is not started again
};
Forecaster g_forecaster;

}  // namespace

void ConfigureForecast(SettingLookup setting) {
  g_forecaster.started = false;
  g_forecaster.analyzer.Find(setting);
  g_forecaster.standard_error.Remember();
}

void ForecastPassed(const char* path, bool last) {
  Forecaster& f = g_forecaster;
  if (f.started) {
    f.child.Running();  // asked at each pass: so the kernel may forget one that has ended
    return;
  }
  const size_t size = std::strlen(path) + 1;
  if (last || size == 1 || size > sizeof f.path) return;
  f.started = true;
  std::memcpy(f.path, path, size);
  if (!f.standard_error.Usable() || !f.analyzer.PrepareForecast(f.path)) return;
  f.child.StartBeside(f.analyzer.program(), f.analyzer.arguments(), f.analyzer.environment());
}

void ForgetForecastInChild() { g_forecaster.child.Forget(); }

}  // namespace gpumemshim::oom

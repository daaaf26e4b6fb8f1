// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A made-up forecast of a training that fits on a GPU of 10 GiB. Tests change what they are about.

#ifndef GPUMEM_TESTS_ANALYZER_PLAN_EXAMPLE_FORECAST_H_
#define GPUMEM_TESTS_ANALYZER_PLAN_EXAMPLE_FORECAST_H_

#include "planner/predict/forecast.h"
#include "testing/sizes.h"

namespace gpumem::plan::testing {

using namespace gpumem::testing;  // NOLINT(google-build-using-namespace): one set of helpers, the sizes among them

// Of a process that needs so much in all.
inline RunPeaks PeaksOfSize(uint64_t process) {
  RunPeaks peaks;
  peaks.device = 0;
  peaks.process = process;
  peaks.reserved = process - kGiB;
  peaks.allocated = peaks.reserved - kGiB / 2;
  peaks.context = 512 * kMiB;
  peaks.elsewhere = 512 * kMiB;
  return peaks;
}

inline Forecast ExampleForecast(uint64_t process = 8 * kGiB) {
  Forecast forecast;
  forecast.command = {"python", "train.py", "--batch-size", "8"};
  forecast.device.name = "SIM10";
  forecast.device.full_name = "A Simulated GPU of 10 GiB";
  forecast.device.memory_mib = 10 << 10;
  forecast.device.capability = 86;
  forecast.device.multiprocessors = 40;
  forecast.device.source = "made up for tests";
  forecast.end = RunEnd::kEnded;
  forecast.seconds = 4.25;
  forecast.timeout_s = 300;
  forecast.data_dependent = "upper";
  PlannedProcess one;
  one.trace = "plan.python.77.gmtrace";
  one.reported.pid = 77;
  one.reported.steps = 4;
  one.reported.last_growth = 2;
  one.reported.torch = "2.11.0";
  one.reported.context = {512 * kMiB, "set"};  // without a doubt of its own
  one.peaks = PeaksOfSize(process);
  forecast.processes = {one};
  return forecast;
}

// Libraries whose workspaces are known in every way.
inline std::vector<WorkspaceUse> SomeWorkspaces() {
  return {{.library = "cuDNN", .set = 1, .measured = 2, .unknown = 3, .largest = 7, .largest_bound = 9},
          {.library = "cuFFT", .similar = 4, .bounded = 1, .largest = 8},
          {.library = "cuSPARSE", .unknown = 1, .without_bound = 1}};
}

// The others of its verdicts.
inline Forecast TightForecast() {
  Forecast forecast = ExampleForecast(12 * kGiB);
  forecast.wanted = 12 * kGiB;
  forecast.fits_when_tight = forecast.tight_with_room = true;
  forecast.when_tight = PeaksOfSize(9 * kGiB);
  return forecast;
}
inline Forecast TooLargeForecast() {
  Forecast forecast = ExampleForecast(12 * kGiB);
  forecast.fits_when_tight = false;
  return forecast;
}
inline Forecast DataForecast() {
  Forecast forecast = ExampleForecast(12 * kGiB);
  forecast.with_zero = PeaksOfSize(6 * kGiB);
  forecast.reads = {{HostReadKind::kShape, "aten::nonzero", "train.py:30", 4, 32}};
  return forecast;
}
inline Forecast OpenForecast(RunEnd end) {
  Forecast forecast = ExampleForecast();
  forecast.end = end;
  forecast.exit_code = 1;
  forecast.stuck_at = "train.py:12 in converge";
  forecast.output = "line one\nline two\n";
  return forecast;
}
inline Forecast CapabilityForecast() {
  Forecast forecast = ExampleForecast();
  forecast.end = RunEnd::kCapability;
  forecast.processes[0].peaks = {};
  forecast.processes[0].reported.built_for = {"sm_90", "compute_100"};
  return forecast;
}

}  // namespace gpumem::plan::testing

#endif  // GPUMEM_TESTS_ANALYZER_PLAN_EXAMPLE_FORECAST_H_

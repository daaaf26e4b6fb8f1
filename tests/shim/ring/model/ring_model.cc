// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Goes through the interleavings of the ring's own code. Ends with 0 where the ring did what it must in all of them
// (with --must-fail: where it did not in one, which is what a planted mistake is for).
//
//   ring_model                  a few seconds
//   ring_model --thorough       more interruptions
//   ring_model --only "publish"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "explorer.h"
#include "operating_system.h"
#include "scenarios.h"

namespace {

struct Options {
  bool thorough = false, must_fail = false;
  std::string only;
  uint64_t limit = UINT64_MAX;  // schedules of a scenario
};

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--thorough") {
      options->thorough = true;
    } else if (argument == "--must-fail") {
      options->must_fail = true;
    } else if (argument == "--mark-late") {
      model::g_mark_late = true;
    } else if (argument == "--limit" && i + 1 < argc) {
      options->limit = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--only" && i + 1 < argc) {
      options->only = argv[++i];
    } else {
      return false;
    }
  }
  return true;
}

// True: the ring did what it must.
bool Explore(const model::Scenario& scenario, const Options& options) {
  model::Explorer& explorer = model::Explorer::Get();
  const auto start = std::chrono::steady_clock::now();
  model::Bounds bounds = options.thorough ? scenario.thorough : scenario.quick;
  bounds.executions = options.limit;
  explorer.Start(bounds);
  while (explorer.BeginExecution()) scenario.run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%-14s %9llu schedules, %11llu steps, %5.1f s%s\n", scenario.name,
              static_cast<unsigned long long>(explorer.executions()),
              static_cast<unsigned long long>(explorer.points()), seconds.count(),
              explorer.failure().empty() && !explorer.exhausted() ? " (not all)" : "");
  if (!explorer.failure().empty()) std::printf("  %s\n", explorer.failure().c_str());
  std::fflush(stdout);
  return explorer.failure().empty();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fprintf(stderr, "usage: %s [--thorough] [--must-fail] [--mark-late] [--only SCENARIO] [--limit N]\n", argv[0]);
    return 2;
  }
  model::OperatingSystem::Get();
  for (const model::Scenario& scenario : model::Scenarios()) {
    if (!options.only.empty() && options.only != scenario.name) continue;
    if (!Explore(scenario, options)) return options.must_fail ? 0 : 1;
  }
  if (options.must_fail) std::printf("no schedule showed the planted mistake\n");
  return options.must_fail ? 1 : 0;
}

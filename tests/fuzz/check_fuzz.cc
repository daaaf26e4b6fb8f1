// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as what `gpumemshim check` reads: limits in YAML, and answers of `gpumemshim plan`. The input's first byte
// chooses which. What was read is checked and written in every format.

#include <cstdint>
#include <string>

#include "answers/compare/check.h"
#include "answers/compare/limits.h"

namespace {

void Check(const gpumem::CheckedRun& run, const gpumem::Limits& limits) {
  const auto lines = gpumem::CheckRun(run, limits, &run, run.name);
  for (const auto format : {gpumem::CheckFormat::kText, gpumem::CheckFormat::kJson, gpumem::CheckFormat::kJUnit,
                            gpumem::CheckFormat::kGitHub})
    gpumem::FormatCheck(lines, format);
  // Without an upper end nothing may pass.
  for (const auto& line : lines) {
    const bool has_most = run.peak && run.peak->most;
    if (!has_most && line.name == "max_peak" && line.result == gpumem::CheckResult::kPassed) __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  gpumem::CheckedRun run;
  run.name = text;
  gpumem::Limits limits;
  limits.max_peak = limits.max_total = 1000;
  limits.max_fragmentation = 0.5;
  if (data[0] % 2 == 0) {
    const auto parsed = gpumem::ParseLimits(text, "budget.yaml", "");
    if (!parsed.ok()) return 0;
    limits = *parsed;
  } else {
    const auto parsed = gpumem::ParsePlanJson(text, "plan.json");
    if (!parsed.ok()) return 0;
    run = *parsed;
  }
  Check(run, limits);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CheckRun: a run against Limits, one verdict a limit. What a trace cannot answer is unknown, never passed: a peak of a
// run that was cut short is only the least that it was, and where frees are missing it may have been less. A plan's
// number is a range: a limit within it is too close to say. Pure functions.
//
//   for (const CheckLine& line : CheckRun(run, limits, baseline)) line.name, line.result, line.measured
//   return ExitCodeOfCheck(lines);

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_CHECK_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "answers/compare/limits.h"
#include "answers/compare/run_facts.h"
#include "render/document.h"

namespace gpumem {

// A number as far as it is known: what was recorded, and the bounds of what the program really needed.
struct CheckedBytes {
  uint64_t bytes = 0;
  uint64_t least = 0;            // 0: events are missing, so it may have been anything below
  std::optional<uint64_t> most;  // absent: it may have been more

  static CheckedBytes Exact(uint64_t bytes) { return {bytes, bytes, bytes}; }
};

// What is checked of a run: of the GPU where each is highest.
struct CheckedRun {
  std::string name;
  std::optional<CheckedBytes> peak, reserved, total;
  std::optional<double> leak;  // bytes a step; absent: nothing repeated often enough, or it was not looked for
  bool leak_is_exact = true;
  std::optional<double> fragmentation;  // share of what is reserved at its peak that no tensor uses
  bool fragmentation_is_least = false, fragmentation_is_exact = true;
  bool is_planned = false;  // by gpumemshim plan: `least` and `most` are the ends of its range
  std::string doubt;        // why a number is not exact; "" = all are
  std::string total_doubt;  // the same, of `total` alone
  std::string refused;      // "it asked for 2 GiB more and ran out of memory"; in `least` of all
};

// kTooClose: the limit lies within the range of a plan.
enum class CheckResult : uint8_t { kPassed, kFailed, kTooClose, kUnknown };
absl::string_view CheckResultName(CheckResult result);  // "passed", "too_close"

struct CheckLine {
  std::string run, name;  // of the run; "max_peak"
  CheckResult result = CheckResult::kUnknown;
  std::string limit, measured;                        // for people
  std::optional<double> limit_value, measured_value;  // bytes, bytes a step, or a share
  bool is_least = false;                              // it may have been more than measured_value
  std::string why;                                    // of an unknown; of a failed one what is known of its cause
};

// `why_larger`: a sentence for a failed comparison with the baseline, "" = none.
std::vector<CheckLine> CheckRun(const CheckedRun& run, const Limits& limits, const CheckedRun* baseline,
                                const std::string& why_larger);

// `facts` and `analysis` are of one trace.
CheckedRun CheckedRunOf(const Analysis& analysis, const RunFacts& facts);

// The answer of `gpumemshim plan --json`: its range. InvalidArgument where it is none.
absl::StatusOr<CheckedRun> ParsePlanJson(const std::string& text, const std::string& name);

// 0 passed, 1 one failed; none failed: 5 one is too close to say, else 7 one is not known (docs/exit-codes.md).
int ExitCodeOfCheck(const std::vector<CheckLine>& lines);

// `lines` outlive the answer.
Document ChecksAnswer(const std::vector<CheckLine>& lines);
// Its list, for other answers that have one.
Document CheckLines(const std::vector<CheckLine>& lines);

enum class CheckFormat : uint8_t { kText, kJson, kJUnit, kGitHub };
std::string FormatCheck(const std::vector<CheckLine>& lines, CheckFormat format);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_CHECK_H_

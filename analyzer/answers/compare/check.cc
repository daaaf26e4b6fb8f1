// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/format.h"

namespace gpumem {
namespace {

std::string Bytes(double bytes) { return FormatBytes(static_cast<uint64_t>(std::llround(std::max(bytes, 0.0)))); }

class Checker {
 public:
  explicit Checker(const CheckedRun& run) : run_(run) {}

  // A limit that is itself uncertain lies between `limit.least` and `limit.most`.
  void CheckBytes(const std::string& name, const std::optional<CheckedBytes>& measured, const CheckedBytes& limit,
                  const std::string& limit_text, const std::string& doubt, const std::string& why) {
    CheckLine line = Begin(name, limit_text, static_cast<double>(limit.bytes));
    if (!measured) return End(std::move(line), CheckResult::kUnknown, doubt.empty() ? "not in this answer" : doubt);
    line.measured = FormatBytes(measured->bytes);
    line.measured_value = static_cast<double>(measured->bytes);
    line.is_least = !measured->most && measured->least == measured->bytes;
    if (limit.most && measured->least > *limit.most) {
      const bool was_refused = measured->bytes <= *limit.most;
      return End(std::move(line), CheckResult::kFailed, was_refused && !run_.refused.empty() ? run_.refused : why);
    }
    if (measured->most && *measured->most <= limit.least) return End(std::move(line), CheckResult::kPassed, "");
    if (measured->most && measured->least != *measured->most)
      line.measured = absl::StrCat(FormatBytes(measured->least), " to ", FormatBytes(*measured->most));
    if (!run_.is_planned && line.is_least) line.measured = absl::StrCat("at least ", FormatBytes(measured->bytes));
    if (run_.is_planned && !measured->most)
      line.measured = absl::StrCat("at least ", FormatBytes(measured->least), ", no upper bound");
    const bool has_ends = measured->most && limit.most == limit.least;
    End(std::move(line), run_.is_planned && has_ends ? CheckResult::kTooClose : CheckResult::kUnknown, doubt);
  }

  void CheckLeak(uint64_t limit) {
    CheckLine line = Begin("max_leak", absl::StrCat(FormatBytes(limit), "/step"), static_cast<double>(limit));
    if (!run_.leak) return End(std::move(line), CheckResult::kUnknown, "nothing repeats often enough to judge growth");
    line.measured = absl::StrCat(Bytes(*run_.leak), "/step");
    line.measured_value = *run_.leak;
    if (!run_.leak_is_exact) return End(std::move(line), CheckResult::kUnknown, run_.doubt);
    if (*run_.leak > static_cast<double>(limit))
      return End(std::move(line), CheckResult::kFailed, "gpumemshim leaks names the lines");
    Decide(std::move(line));
  }

  void CheckFragmentation(double limit) {
    CheckLine line = Begin("max_fragmentation", FormatPercent(limit), limit);
    if (!run_.fragmentation) return End(std::move(line), CheckResult::kUnknown, "PyTorch reserved nothing");
    line.measured = absl::StrCat(run_.fragmentation_is_least ? "at least " : "", FormatPercent(*run_.fragmentation));
    line.measured_value = *run_.fragmentation;
    if (!run_.fragmentation_is_exact) return End(std::move(line), CheckResult::kUnknown, run_.doubt);
    if (*run_.fragmentation > limit)
      return End(std::move(line), CheckResult::kFailed, "gpumemshim fragmentation shows what pins it");
    if (run_.fragmentation_is_least)
      return End(std::move(line), CheckResult::kUnknown, "the two peaks may be of different moments");
    Decide(std::move(line));
  }

  std::vector<CheckLine> Take() { return std::move(lines_); }

 private:
  CheckLine Begin(const std::string& name, const std::string& limit, double value) const {
    CheckLine line;
    line.run = run_.name;
    line.name = name;
    line.limit = limit;
    line.limit_value = value;
    return line;
  }

  // A number within its limit.
  void Decide(CheckLine line) {
    if (run_.doubt.empty()) return End(std::move(line), CheckResult::kPassed, "");
    End(std::move(line), CheckResult::kUnknown, run_.doubt);
  }

  void End(CheckLine line, CheckResult result, const std::string& why) {
    line.result = result;
    line.why = why;
    lines_.push_back(std::move(line));
  }

  const CheckedRun& run_;
  std::vector<CheckLine> lines_;
};

std::string TotalDoubt(const CheckedRun& run) {
  return run.doubt.empty() || (run.is_planned && !run.total_doubt.empty()) ? run.total_doubt : run.doubt;
}

void CheckBaseline(const CheckedRun& run, const CheckedRun& baseline, double tolerance, const std::string& why_larger,
                   Checker* checker) {
  const auto with_tolerance = [&](uint64_t bytes) {
    return static_cast<uint64_t>(std::floor(static_cast<double>(bytes) * (1 + tolerance)));
  };
  const auto check = [&](const std::string& name, const std::optional<CheckedBytes>& measured,
                         const std::optional<CheckedBytes>& base) {
    CheckedBytes limit;  // nothing is known of a baseline without this number
    if (base) {
      limit.bytes = with_tolerance(base->bytes);
      limit.least = with_tolerance(base->least);
      if (base->most) limit.most = with_tolerance(*base->most);
    }
    std::string doubt = run.doubt;
    if (doubt.empty()) doubt = absl::StrCat("of the baseline: ", base ? baseline.doubt : "not in its answer");
    const std::string text = absl::StrCat(base ? FormatBytes(base->bytes) : "not known", " + ",
                                          FormatPercent(tolerance), " of ", baseline.name);
    checker->CheckBytes(name, measured, limit, text, doubt, why_larger);
  };
  check("baseline_peak", run.peak, baseline.peak);
  check("baseline_reserved", run.reserved, baseline.reserved);
}

}  // namespace

absl::string_view CheckResultName(CheckResult result) {
  switch (result) {
    case CheckResult::kPassed:
      return "passed";
    case CheckResult::kFailed:
      return "failed";
    case CheckResult::kTooClose:
      return "too_close";
    case CheckResult::kUnknown:
      return "unknown";
  }
  return "unknown";
}

std::vector<CheckLine> CheckRun(const CheckedRun& run, const Limits& limits, const CheckedRun* baseline,
                                const std::string& why_larger) {
  Checker checker(run);
  const auto check = [&](const std::string& name, const std::optional<CheckedBytes>& measured,
                         const std::optional<uint64_t>& limit, const std::string& doubt) {
    if (limit) checker.CheckBytes(name, measured, CheckedBytes::Exact(*limit), FormatBytes(*limit), doubt, "");
  };
  check("max_peak", run.peak, limits.max_peak, run.doubt);
  check("max_reserved", run.reserved, limits.max_reserved, run.doubt);
  check("max_total", run.total, limits.max_total, TotalDoubt(run));
  if (limits.max_leak) checker.CheckLeak(*limits.max_leak);
  if (limits.max_fragmentation) checker.CheckFragmentation(*limits.max_fragmentation);
  if (baseline != nullptr) CheckBaseline(run, *baseline, limits.tolerance, why_larger, &checker);
  return checker.Take();
}

int ExitCodeOfCheck(const std::vector<CheckLine>& lines) {
  constexpr int kPassed = 0, kFailed = 1, kTooClose = 5, kUnknown = 7;
  const auto has = [&](CheckResult result) {
    return std::any_of(lines.begin(), lines.end(), [&](const CheckLine& line) { return line.result == result; });
  };
  if (has(CheckResult::kFailed)) return kFailed;
  if (has(CheckResult::kTooClose)) return kTooClose;
  return has(CheckResult::kUnknown) ? kUnknown : kPassed;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "score.h"

#include <algorithm>

#include "answers/outlook/forecast.h"

namespace gpumem {
namespace {

constexpr size_t kLine = 60;        // values of a straight line
constexpr double kAhead = 600;      // steps that it is believed for
constexpr double kConfident = 0.8;  // share of the variance that it explains

void Lead(size_t warned_at, const Run& run, Score* score) {
  run.runs_out ? ++score->runs_out : ++score->clean;
  if (warned_at == 0) return;
  if (!run.runs_out) {
    ++score->false_warnings;
    return;
  }
  ++score->warned;
  score->leads.push_back(1 - static_cast<double>(warned_at) / static_cast<double>(run.levels.size()));
}

struct Line {
  double slope = 0, explained = 0, last = 0;
};

Line LineThrough(const Run& run, size_t seen) {
  double sum_t = 0, sum_y = 0, sum_tt = 0, sum_ty = 0, sum_yy = 0;
  const double count = kLine;
  for (size_t i = 0; i < kLine; ++i) {
    const double t = static_cast<double>(i), y = run.levels[seen - kLine + i] / run.limit;
    sum_t += t, sum_y += y, sum_tt += t * t, sum_ty += t * y, sum_yy += y * y;
  }
  const double across = count * sum_ty - sum_t * sum_y, along = count * sum_tt - sum_t * sum_t,
               spread = count * sum_yy - sum_y * sum_y;
  return {across / along, spread <= 0 ? 0 : across * across / along / spread, run.levels[seen - 1] / run.limit};
}

bool MeetsTheLimit(const Line& line) { return line.slope > 0 && (1 - line.last) / line.slope <= kAhead; }

template <int kPercent>
bool IsAbove(const Run& run, size_t seen) {
  return run.levels[seen - 1] >= kPercent * run.limit / 100;
}

bool LineWarns(const Run& run, size_t seen) { return seen >= kLine && MeetsTheLimit(LineThrough(run, seen)); }

// A share of the GPU, or a trend that is confidently seen to reach its end.
bool ShareOrTrend(const Run& run, size_t seen) {
  if (IsAbove<85>(run, seen)) return true;
  if (seen < kLine) return false;
  const Line line = LineThrough(run, seen);
  return line.explained >= kConfident && MeetsTheLimit(line);
}

}  // namespace

void Score::Add(const Score& other) {
  runs_out += other.runs_out, warned += other.warned, clean += other.clean, false_warnings += other.false_warnings;
  ranges += other.ranges, held += other.held;
  leads.insert(leads.end(), other.leads.begin(), other.leads.end());
  for (size_t i = 0; i < errors.size(); ++i)
    errors[i].insert(errors[i].end(), other.errors[i].begin(), other.errors[i].end());
}

Score Judge(const Run& run, size_t every) {
  Score score;
  size_t warned_at = 0, next_range = 0;
  const size_t apart = std::max<size_t>(1, run.levels.size() / 100);
  for (size_t n = kLeastSteps; n < run.levels.size(); n += every) {
    if (warned_at != 0 && n < next_range) continue;
    const Forecast forecast =
        ForecastOf({run.levels.begin(), run.levels.begin() + static_cast<std::ptrdiff_t>(n)}, {run.limit, run.limit});
    if (forecast.kind != ForecastKind::kReaches) continue;
    if (warned_at == 0) warned_at = n;
    if (!run.runs_out) break;
    next_range = n + apart;
    const auto left = static_cast<double>(run.levels.size() - n);
    ++score.ranges;
    score.errors[static_cast<size_t>(forecast.scatter)].push_back(
        {(forecast.likely - left) / (forecast.likely - forecast.earliest),
         (left - forecast.likely) / (forecast.latest - forecast.likely)});
    score.held += forecast.earliest <= left && left <= forecast.latest ? 1 : 0;
  }
  Lead(warned_at, run, &score);
  return score;
}

std::vector<Baseline> Baselines() {
  return {{"a share of 85 %, or a confident trend (as S4's OOMDetector)", &ShareOrTrend},
          {"a line through the last 60 values", &LineWarns},
          {"alarm at 85 % of the limit", &IsAbove<85>},
          {"alarm at 90 % of the limit", &IsAbove<90>},
          {"alarm at 95 % of the limit", &IsAbove<95>}};
}

Score JudgeBaseline(const Run& run, const Baseline& baseline) {
  Score score;
  size_t warned_at = 0;
  for (size_t n = 1; n + 1 < run.levels.size() && warned_at == 0; ++n) {
    if (baseline.warns(run, n)) warned_at = n;
  }
  Lead(warned_at, run, &score);
  return score;
}

}  // namespace gpumem

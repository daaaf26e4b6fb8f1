// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How often a method of warning is right: looked at after each step of a run, as if it went on. Pure.
//
//   Score score;
//   score.Add(Judge(run.levels, run.limit, run.runs_out));

#ifndef GPUMEM_BENCH_FORECAST_SCORE_H_
#define GPUMEM_BENCH_FORECAST_SCORE_H_

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace gpumem {

struct Run {
  std::string name;
  std::vector<double> levels;  // bytes; where it runs out, the last one is at the limit
  double limit = 0;
  bool runs_out = false, is_held_back = false;
};

// Of a range: how much earlier and later than likely it was, in widths of that side.
struct RangeError {
  double earlier = 0, later = 0;
};

struct Score {
  int runs_out = 0, warned = 0, clean = 0, false_warnings = 0;
  int ranges = 0, held = 0;
  std::vector<double> leads;                      // of the run's length
  std::array<std::vector<RangeError>, 3> errors;  // of each range, by Scatter
  void Add(const Score& other);
};

// Of the forecast. `every`: steps from look to look.
Score Judge(const Run& run, size_t every);

struct Baseline {
  const char* name;
  // Whether it warns with so many steps seen.
  bool (*warns)(const Run& run, size_t seen);
};
std::vector<Baseline> Baselines();
Score JudgeBaseline(const Run& run, const Baseline& baseline);

}  // namespace gpumem

#endif  // GPUMEM_BENCH_FORECAST_SCORE_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Made-up runs: for each law of growth the levels of up to 2,000 steps, up to the limit. The same seed gives the same
// run.
//
//   for (const Law& law : FirstLaws()) { Random random(seed); law.run(random); }

#ifndef GPUMEM_BENCH_FORECAST_LAWS_H_
#define GPUMEM_BENCH_FORECAST_LAWS_H_

#include <cstddef>
#include <functional>
#include <random>
#include <vector>

namespace gpumem {

inline constexpr double kLimit = 80e9;
inline constexpr size_t kSteps = 2000;

using Random = std::mt19937_64;

struct Law {
  const char* name;
  std::function<std::vector<double>(Random&)> run;
};

// The laws by which the method was chosen, on two thirds of the seeds.
std::vector<Law> FirstLaws();
// Laws that were written when the method was done.
std::vector<Law> LaterLaws();

}  // namespace gpumem

#endif  // GPUMEM_BENCH_FORECAST_LAWS_H_

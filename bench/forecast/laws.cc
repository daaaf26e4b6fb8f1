// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "laws.h"

#include <algorithm>
#include <cmath>

namespace gpumem {
namespace {

double Uniform(Random& random, double from, double to) {
  return std::uniform_real_distribution<double>(from, to)(random);
}
double Normal(Random& random) { return std::normal_distribution<double>()(random); }

// Levels of each step: `at(t)` plus noise, up to the limit.
std::vector<double> Run(const std::function<double(double)>& at) {
  std::vector<double> levels;
  for (size_t t = 0; t < kSteps; ++t) {
    levels.push_back(at(static_cast<double>(t)));
    if (levels.back() >= kLimit) break;
  }
  return levels;
}

double Base(Random& r) { return Uniform(r, 0.2, 0.6) * kLimit; }
// Bytes a step that fill the rest in 300 to 1,800 steps.
double Rate(Random& r, double base) { return (kLimit - base) / Uniform(r, 300, 1800); }

}  // namespace

// budget: a table of laws, one entry each.
std::vector<Law> FirstLaws() {
  return {
      {"a leak, even",
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b);
         return Run([=](double t) { return b + k * t; });
       }},
      {"a leak, with noise of batches",
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b * 1.05), noise = Uniform(r, 0.005, 0.03) * b;
         return Run([=, &r](double t) { return b + k * t + noise * Normal(r); });
       }},
      {"a leak in random amounts",
       [](Random& r) {
         double level = Base(r);
         const double k = Rate(r, level);
         return Run([=, &r](double) mutable { return level += k * -std::log(Uniform(r, 1e-9, 1)); });
       }},
      {"a leak now and then",
       [](Random& r) {
         double level = Base(r);
         const double k = Rate(r, level), often = Uniform(r, 0.03, 0.3);
         return Run([=, &r](double) mutable { return level += Uniform(r, 0, 1) < often ? k / often : 0; });
       }},
      {"a leak every so many steps",
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b), every = std::floor(Uniform(r, 10, 40));
         return Run([=](double t) { return b + k * every * std::floor(t / every); });
       }},
      {"a leak that begins late",
       [](Random& r) {
         const double b = Base(r), start = Uniform(r, 200, 900), k = (kLimit - b) / Uniform(r, 300, 1000),
                      noise = 0.003 * b;
         return Run([=, &r](double t) { return b + k * std::max(0.0, t - start) + noise * Normal(r); });
       }},
      {"a leak that speeds up",
       [](Random& r) {
         const double b = Base(r), end = Uniform(r, 400, 1800);
         return Run([=](double t) { return b + (kLimit - b) * std::pow(t / end, 1.6); });
       }},
      {"a leak under a garbage collector's saw",
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b * 1.1), saw = Uniform(r, 0.02, 0.08) * b,
                      every = std::floor(Uniform(r, 8, 30));
         return Run([=](double t) { return b + k * t + saw * std::fmod(t, every) / every; });
       }},
      {"a leak with evaluations",
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b * 1.2), spike = 0.15 * b, every = std::floor(Uniform(r, 50, 150));
         return Run([=](double t) { return b + k * t + (std::fmod(t, every) < 1 && t > 0 ? spike : 0); });
       }},
      {"longer inputs, stage by stage, to the limit",
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b), every = std::floor(Uniform(r, 40, 80)), noise = 0.004 * b;
         return Run([=, &r](double t) { return b + k * every * std::floor(t / every) + noise * Normal(r); });
       }},
      {"steady",
       [](Random& r) {
         const double b = Base(r);
         return Run([=](double) { return b; });
       }},
      {"steady, with noise of batches",
       [](Random& r) {
         const double b = Base(r), noise = Uniform(r, 0.01, 0.08) * b;
         return Run([=, &r](double) { return b + noise * Normal(r); });
       }},
      {"a cache that fills",
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.05, 0.4) * (kLimit - b), over = Uniform(r, 50, 800),
                      noise = 0.002 * b;
         return Run([=, &r](double t) { return b + grown * std::min(1.0, t / over) + noise * Normal(r); });
       }},
      {"a cache that fills ever more slowly",
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.1, 0.8) * (kLimit - b), over = Uniform(r, 50, 600);
         return Run([=](double t) { return b + grown * (1 - std::exp(-t / over)); });
       }},
      {"a garbage collector's saw",
       [](Random& r) {
         const double b = Base(r), saw = Uniform(r, 0.1, 0.5) * (kLimit - b), every = std::floor(Uniform(r, 20, 300));
         return Run([=](double t) { return b + saw * std::fmod(t, every) / every; });
       }},
      {"evaluations",
       [](Random& r) {
         const double b = Base(r), spike = Uniform(r, 0.1, 0.9) * (kLimit - b), every = std::floor(Uniform(r, 50, 300));
         return Run([=](double t) { return b + (std::fmod(t, every) < 2 ? spike : 0); });
       }},
      {"longer and longer batches seen by chance",
       [](Random& r) {
         const double b = Base(r), spread = Uniform(r, 0.01, 0.04) * b;
         return Run([=, &r](double) { return std::min(0.97 * kLimit, b - spread * std::log(Uniform(r, 1e-9, 1))); });
       }},
      {"longer inputs, stage by stage, and then no more",
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.05, 0.4) * (kLimit - b), stages = std::floor(Uniform(r, 2, 6));
         return Run([=](double t) { return b + grown * std::min(1.0, std::floor(t / 120) / stages); });
       }},
      {"fragmentation that settles",
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.05, 0.3) * (kLimit - b), noise = 0.003 * b;
         return Run(
             [=, &r](double t) { return b + grown * std::log1p(t) / std::log(3000.0) + std::abs(noise * Normal(r)); });
       }},
      {"slow drift that stays far from the limit",
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.01, 0.2) * (kLimit - b), noise = 0.004 * b;
         return Run([=, &r](double t) { return b + grown * t / kSteps + noise * Normal(r); });
       }},
  };
}

// budget: a table of laws, one entry each.
std::vector<Law> LaterLaws() {
  return {
      {"a large collector's saw over a leak",
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b * 1.2), saw = Uniform(r, 0.1, 0.3) * b,
                      every = std::floor(Uniform(r, 20, 100));
         return Run([=](double t) { return b + k * t + saw * std::fmod(t, every) / every; });
       }},
      {"a leak that pauses",
       [](Random& r) {
         double level = Base(r), left = 0;
         const double k = Rate(r, level) * 2.5;
         bool grows = true;
         return Run([=, &r](double) mutable {
           if (--left < 0) left = Uniform(r, 50, 200), grows = !grows;
           return level += grows ? k : 0;
         });
       }},
      {"two leaks, one in bursts",
       [](Random& r) {
         double level = Base(r);
         const double k = Rate(r, level) / 2;
         return Run([=, &r](double) mutable { return level += k + (Uniform(r, 0, 1) < 0.02 ? 50 * k : 0); });
       }},
      {"growth by the square",
       [](Random& r) {
         const double b = Base(r), end = Uniform(r, 400, 1800), noise = 0.002 * b;
         return Run([=, &r](double t) { return b + (kLimit - b) * std::pow(t / end, 2.2) + noise * Normal(r); });
       }},
      {"an uneven collector's saw",
       [](Random& r) {
         const double b = Base(r), k = Uniform(r, 0.1, 0.5) * (kLimit - b) / 400, noise = 0.004 * b;
         double held = 0, left = 0;
         return Run([=, &r](double) mutable {
           if (--left < 0) left = Uniform(r, 30, 400), held = 0;
           held += k;
           return b + held + noise * Normal(r);
         });
       }},
      {"a slow collector's saw, seen a few times",
       [](Random& r) {
         const double b = Base(r), saw = Uniform(r, 0.1, 0.5) * (kLimit - b), every = std::floor(Uniform(r, 300, 900));
         return Run([=](double t) { return b + saw * std::fmod(t, every) / every; });
       }},
      {"batches that grow over a part of the run",
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.1, 0.4) * (kLimit - b), from = Uniform(r, 0, 300),
                      over = Uniform(r, 300, 1000), noise = 0.01 * b;
         return Run(
             [=, &r](double t) { return b + grown * std::clamp((t - from) / over, 0.0, 1.0) + noise * Normal(r); });
       }},
      {"long evaluations",
       [](Random& r) {
         const double b = Base(r), more = Uniform(r, 0.1, 0.8) * (kLimit - b), every = std::floor(Uniform(r, 100, 300)),
                      length = Uniform(r, 10, 60), noise = 0.004 * b;
         return Run(
             [=, &r](double t) { return b + (std::fmod(t, every) > every - length ? more : 0) + noise * Normal(r); });
       }},
      {"fragmentation that rises now and then, less and less often",
       [](Random& r) {
         double level = Base(r);
         const double jump = Uniform(r, 0.02, 0.08) * (kLimit - level), noise = 0.003 * level;
         return Run([=, &r](double t) mutable {
           if (Uniform(r, 0, 1) < 1.5 / (t + 10)) level = std::min(level + jump, 0.9 * kLimit);
           return level + std::abs(noise * Normal(r));
         });
       }},
  };
}

}  // namespace gpumem

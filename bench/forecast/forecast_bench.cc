// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How often gpumem forecast is right: made-up runs of many laws of growth, with noise, each looked at again and again
// as it goes on. Beside it an alarm at 85, 90 and 95 % of the limit, and a straight line through the last 60 values.
// Writes a Markdown page. One run in three is held back: the method was chosen without it.
//
//   build/release/bin/forecast_bench > docs/forecast-test-set.md

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "outlook/forecast.h"

namespace gpumem {
namespace {

constexpr double kLimit = 80e9;
constexpr size_t kSteps = 2000;
constexpr int kSeeds = 18;  // runs of each law; every third is held back

using Random = std::mt19937_64;
using Law = std::function<std::vector<double>(Random&)>;

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

struct Named {
  const char* name;
  bool runs_out;
  Law law;
};

double Base(Random& r) { return Uniform(r, 0.2, 0.6) * kLimit; }
// Bytes a step that fill the rest in 300 to 1,800 steps.
double Rate(Random& r, double base) { return (kLimit - base) / Uniform(r, 300, 1800); }

// budget: a table of laws, one entry each.
std::vector<Named> Laws() {
  return {
      {"a leak, even", true,
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b);
         return Run([=](double t) { return b + k * t; });
       }},
      {"a leak, with noise of batches", true,
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b * 1.05), noise = Uniform(r, 0.005, 0.03) * b;
         return Run([=, &r](double t) { return b + k * t + noise * Normal(r); });
       }},
      {"a leak in random amounts", true,
       [](Random& r) {
         double level = Base(r);
         const double k = Rate(r, level);
         return Run([=, &r](double) mutable { return level += k * -std::log(Uniform(r, 1e-9, 1)); });
       }},
      {"a leak now and then", true,
       [](Random& r) {
         double level = Base(r);
         const double k = Rate(r, level), often = Uniform(r, 0.03, 0.3);
         return Run([=, &r](double) mutable { return level += Uniform(r, 0, 1) < often ? k / often : 0; });
       }},
      {"a leak every so many steps", true,
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b), every = std::floor(Uniform(r, 10, 40));
         return Run([=](double t) { return b + k * every * std::floor(t / every); });
       }},
      {"a leak that begins late", true,
       [](Random& r) {
         const double b = Base(r), start = Uniform(r, 200, 900), k = (kLimit - b) / Uniform(r, 300, 1000),
                      noise = 0.003 * b;
         return Run([=, &r](double t) { return b + k * std::max(0.0, t - start) + noise * Normal(r); });
       }},
      {"a leak that speeds up", true,
       [](Random& r) {
         const double b = Base(r), end = Uniform(r, 400, 1800);
         return Run([=](double t) { return b + (kLimit - b) * std::pow(t / end, 1.6); });
       }},
      {"a leak under a garbage collector's saw", true,
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b * 1.1), saw = Uniform(r, 0.02, 0.08) * b,
                      every = std::floor(Uniform(r, 8, 30));
         return Run([=](double t) { return b + k * t + saw * std::fmod(t, every) / every; });
       }},
      {"a leak with evaluations", true,
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b * 1.2), spike = 0.15 * b, every = std::floor(Uniform(r, 50, 150));
         return Run([=](double t) { return b + k * t + (std::fmod(t, every) < 1 && t > 0 ? spike : 0); });
       }},
      {"longer inputs, stage by stage, to the limit", true,
       [](Random& r) {
         const double b = Base(r), k = Rate(r, b), every = std::floor(Uniform(r, 40, 80)), noise = 0.004 * b;
         return Run([=, &r](double t) { return b + k * every * std::floor(t / every) + noise * Normal(r); });
       }},
      {"steady", false,
       [](Random& r) {
         const double b = Base(r);
         return Run([=](double) { return b; });
       }},
      {"steady, with noise of batches", false,
       [](Random& r) {
         const double b = Base(r), noise = Uniform(r, 0.01, 0.08) * b;
         return Run([=, &r](double) { return b + noise * Normal(r); });
       }},
      {"a cache that fills", false,
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.05, 0.4) * (kLimit - b), over = Uniform(r, 50, 800),
                      noise = 0.002 * b;
         return Run([=, &r](double t) { return b + grown * std::min(1.0, t / over) + noise * Normal(r); });
       }},
      {"a cache that fills ever more slowly", false,
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.1, 0.8) * (kLimit - b), over = Uniform(r, 50, 600);
         return Run([=](double t) { return b + grown * (1 - std::exp(-t / over)); });
       }},
      {"a garbage collector's saw", false,
       [](Random& r) {
         const double b = Base(r), saw = Uniform(r, 0.1, 0.5) * (kLimit - b), every = std::floor(Uniform(r, 20, 300));
         return Run([=](double t) { return b + saw * std::fmod(t, every) / every; });
       }},
      {"evaluations", false,
       [](Random& r) {
         const double b = Base(r), spike = Uniform(r, 0.1, 0.9) * (kLimit - b), every = std::floor(Uniform(r, 50, 300));
         return Run([=](double t) { return b + (std::fmod(t, every) < 2 ? spike : 0); });
       }},
      {"longer and longer batches seen by chance", false,
       [](Random& r) {
         const double b = Base(r), spread = Uniform(r, 0.01, 0.04) * b;
         return Run([=, &r](double) { return std::min(0.97 * kLimit, b - spread * std::log(Uniform(r, 1e-9, 1))); });
       }},
      {"longer inputs, stage by stage, and then no more", false,
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.05, 0.4) * (kLimit - b), stages = std::floor(Uniform(r, 2, 6));
         return Run([=](double t) { return b + grown * std::min(1.0, std::floor(t / 120) / stages); });
       }},
      {"fragmentation that settles", false,
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.05, 0.3) * (kLimit - b), noise = 0.003 * b;
         return Run(
             [=, &r](double t) { return b + grown * std::log1p(t) / std::log(3000.0) + std::abs(noise * Normal(r)); });
       }},
      {"slow drift that stays far from the limit", false,
       [](Random& r) {
         const double b = Base(r), grown = Uniform(r, 0.01, 0.2) * (kLimit - b), noise = 0.004 * b;
         return Run([=, &r](double t) { return b + grown * t / kSteps + noise * Normal(r); });
       }},
  };
}

struct Score {
  int runs_out = 0, warned = 0, clean = 0, false_warnings = 0;
  int ranges = 0, held = 0;
  std::vector<double> leads;  // of the run's length
  void Add(const Score& other) {
    runs_out += other.runs_out, warned += other.warned, clean += other.clean, false_warnings += other.false_warnings;
    ranges += other.ranges, held += other.held;
    leads.insert(leads.end(), other.leads.begin(), other.leads.end());
  }
};

// The first step at which a method warns; 0 = never.
using Warns = std::function<bool(const std::vector<double>& seen)>;

void Lead(size_t warned_at, const std::vector<double>& levels, bool runs_out, Score* score) {
  runs_out ? ++score->runs_out : ++score->clean;
  if (warned_at == 0) return;
  if (!runs_out) {
    ++score->false_warnings;
    return;
  }
  ++score->warned;
  score->leads.push_back(1 - static_cast<double>(warned_at) / static_cast<double>(levels.size()));
}

Score Judge(const std::vector<double>& levels, bool runs_out) {
  Score score;
  size_t warned_at = 0;
  const size_t apart = std::max<size_t>(1, levels.size() / 100);
  for (size_t n = kLeastSteps; n < levels.size(); n += apart) {
    const Forecast forecast =
        ForecastOf({levels.begin(), levels.begin() + static_cast<std::ptrdiff_t>(n)}, {kLimit, kLimit});
    if (forecast.kind != ForecastKind::kReaches) continue;
    if (warned_at == 0) warned_at = n;
    if (!runs_out) continue;
    const auto left = static_cast<double>(levels.size() - n);
    ++score.ranges;
    score.held += forecast.earliest <= left && left <= forecast.latest;
  }
  Lead(warned_at, levels, runs_out, &score);
  return score;
}

Score JudgeBaseline(const std::vector<double>& levels, bool runs_out, const Warns& warns) {
  Score score;
  size_t warned_at = 0;
  for (size_t n = 1; n + 1 < levels.size() && warned_at == 0; ++n)
    if (warns({levels.begin(), levels.begin() + static_cast<std::ptrdiff_t>(n)})) warned_at = n;
  Lead(warned_at, levels, runs_out, &score);
  return score;
}

// A straight line through the last 60 values meets the limit within the next 600.
bool LineWarns(const std::vector<double>& seen) {
  if (seen.size() < 60) return false;
  double sum_t = 0, sum_y = 0, sum_tt = 0, sum_ty = 0;
  for (int i = 0; i < 60; ++i) {
    const double y = seen[seen.size() - 60 + static_cast<size_t>(i)];
    sum_t += i, sum_y += y, sum_tt += i * i, sum_ty += i * y;
  }
  const double slope = (60 * sum_ty - sum_t * sum_y) / (60 * sum_tt - sum_t * sum_t);
  return slope > 0 && (kLimit - seen.back()) / slope <= 600;
}

void PrintRow(const std::string& name, const Score& score) {
  const auto percent = [](int part, int whole) { return whole == 0 ? 0.0 : 100.0 * part / whole; };
  std::vector<double> leads = score.leads;
  std::sort(leads.begin(), leads.end());
  std::printf("| %s | %d of %d | %d of %d | %s | %s |\n", name.c_str(), score.warned, score.runs_out,
              score.false_warnings, score.clean,
              leads.empty() ? "" : (std::to_string(static_cast<int>(100 * leads[leads.size() / 2])) + " %").c_str(),
              score.ranges == 0
                  ? ""
                  : (std::to_string(static_cast<int>(std::lround(percent(score.held, score.ranges)))) + " %").c_str());
}

int Main() {
  std::map<bool, Score> totals;
  std::map<std::string, Score> held_back_baselines;
  std::vector<std::pair<std::string, Score>> laws;
  uint64_t number = 0;
  for (const Named& named : Laws()) {
    Score of_law;
    ++number;
    for (int seed = 0; seed < kSeeds; ++seed) {
      Random random(1000 * number + static_cast<uint64_t>(seed));
      const std::vector<double> levels = named.law(random);
      const bool is_held_back = seed % 3 == 2;
      const bool runs_out = levels.back() >= kLimit;
      const Score score = Judge(levels, runs_out);
      of_law.Add(score);
      totals[is_held_back].Add(score);
      if (!is_held_back) continue;
      for (const int share : {85, 90, 95})
        held_back_baselines["alarm at " + std::to_string(share) + " % of the limit"].Add(JudgeBaseline(
            levels, runs_out, [&](const std::vector<double>& seen) { return seen.back() >= share * kLimit / 100; }));
      held_back_baselines["a line through the last 60 values"].Add(JudgeBaseline(levels, runs_out, LineWarns));
    }
    laws.emplace_back(named.name, of_law);
  }
  std::printf(
      "| runs | warned before the end | false warnings | median lead, of the run | ranges that held "
      "|\n|---|---|---|---|---|\n");
  PrintRow("**chosen on these two thirds**", totals[false]);
  PrintRow("**held back**", totals[true]);
  for (const auto& [name, score] : held_back_baselines) PrintRow("held back: " + name, score);
  for (const auto& [name, score] : laws) PrintRow(name, score);
  return 0;
}

}  // namespace
}  // namespace gpumem

int main() { return gpumem::Main(); }

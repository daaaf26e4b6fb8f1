// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How often gpumemshim forecast is right: made-up runs of many laws of growth, with noise, and the steps' peaks of
// recorded programs, each looked at again and again as it goes on. Beside it simpler alarms. Writes Markdown tables;
// one run in three is held back. bench/forecast/page puts them into docs/forecast.md.
//
//   build/release/bin/forecast_bench bench/forecast/step_peaks.tsv [STEPS FROM LOOK TO LOOK]

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "laws.h"
#include "score.h"

namespace gpumem {
namespace {

constexpr int kSeeds = 18;  // runs of each law; every third is held back
// The GPU of a recorded program that does not run out, by its highest level: half full, or as good as full.
constexpr double kHalfFull = 2, kTight = 1.25;
constexpr double kLeastGrowth = 0.1;  // of a program that does: of its last level, over what was recorded
size_t g_every = 5;                   // steps from look to look

std::vector<Run> RunsOf(const std::vector<Law>& laws, uint64_t number) {
  std::vector<Run> runs;
  for (const Law& law : laws) {
    ++number;
    for (int seed = 0; seed < kSeeds; ++seed) {
      Random random(1000 * number + static_cast<uint64_t>(seed));
      Run& run = runs.emplace_back();
      run.name = law.name;
      run.levels = law.run(random);
      run.limit = kLimit;
      run.runs_out = run.levels.back() >= kLimit;
      run.is_held_back = seed % 3 == 2;
    }
  }
  return runs;
}

// A program that runs out has a GPU that is full at its last step. One that grows too little in what was recorded is
// left out: it would be full by chance.
std::vector<Run> RecordedRuns(const char* path, double room) {
  std::vector<Run> runs;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // head
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string source, name;
    int seed = 0, runs_out = 0;
    fields >> source >> name >> seed >> runs_out;
    Run& run = runs.emplace_back();
    run.name = name;
    std::replace(run.name.begin(), run.name.end(), '_', ' ');
    run.runs_out = runs_out != 0;
    for (double kib = 0; fields >> kib;) run.levels.push_back(kib * 1024);
    const double highest = *std::max_element(run.levels.begin(), run.levels.end());
    run.limit = run.runs_out ? highest : room * highest;
    if (run.runs_out && run.levels.back() - run.levels.front() < kLeastGrowth * run.levels.back()) runs.pop_back();
  }
  return runs;
}

void PrintRow(const std::string& name, const Score& score) {
  std::vector<double> leads = score.leads;
  std::sort(leads.begin(), leads.end());
  const auto share = [](double part) { return std::to_string(static_cast<int>(std::lround(100 * part))) + " %"; };
  const std::string lead = leads.empty() ? "" : share(leads[leads.size() / 2]);
  const std::string held = score.ranges == 0 ? "" : share(static_cast<double>(score.held) / score.ranges);
  const auto of = [](int part, int whole) {
    return whole == 0 ? std::string() : std::to_string(part) + " of " + std::to_string(whole);
  };
  std::printf("| %s | %s | %s | %s | %s |\n", name.c_str(), of(score.warned, score.runs_out).c_str(),
              of(score.false_warnings, score.clean).c_str(), lead.c_str(), held.c_str());
}

void PrintHead() {
  std::printf(
      "\n| runs | warned before the end | false warnings | median lead, of the run | ranges that held "
      "|\n|---|---|---|---|---|\n");
}

void PrintBaselines(const std::vector<Run>& runs, const char* which, const std::function<bool(const Run&)>& counts) {
  for (const Baseline& baseline : Baselines()) {
    Score score;
    for (const Run& run : runs) {
      if (counts(run)) score.Add(JudgeBaseline(run, baseline));
    }
    PrintRow(std::string(which) + baseline.name, score);
  }
}

// A row for each name, in the order of the runs.
void PrintByName(const std::vector<Run>& runs, const std::vector<Score>& scores) {
  for (size_t i = 0; i < runs.size();) {
    Score score;
    const std::string& name = runs[i].name;
    for (; i < runs.size() && runs[i].name == name; ++i) score.Add(scores[i]);
    PrintRow(name, score);
  }
}

std::vector<Score> Judged(const std::vector<Run>& runs, Score* all) {
  std::vector<Score> scores;
  for (const Run& run : runs) {
    scores.push_back(Judge(run, g_every));
    all->Add(scores.back());
  }
  return scores;
}

void PrintFirst() {
  const std::vector<Run> runs = RunsOf(FirstLaws(), 0);
  Score all, chosen, held_back;
  const std::vector<Score> scores = Judged(runs, &all);
  for (size_t i = 0; i < runs.size(); ++i) (runs[i].is_held_back ? held_back : chosen).Add(scores[i]);
  PrintHead();
  PrintRow("**the two thirds by which the method was chosen**", chosen);
  PrintRow("**held back**", held_back);
  PrintBaselines(runs, "held back: ", [](const Run& run) { return run.is_held_back; });
  PrintByName(runs, scores);
}

void PrintOthers(const std::string& title, const std::vector<Run>& runs) {
  Score all;
  if (runs.empty()) return;
  const std::vector<Score> scores = Judged(runs, &all);
  PrintHead();
  PrintRow("**" + title + "**", all);
  PrintBaselines(runs, "", [](const Run&) { return true; });
  PrintByName(runs, scores);
}

// Made-up runs that do not run out, each on a GPU of so many times what it needs.
void PrintTightLaws() {
  std::vector<Run> runs = RunsOf(FirstLaws(), 0);
  std::erase_if(runs, [](const Run& run) { return run.runs_out; });
  Score all, chosen, held_back;
  for (Run& run : runs) run.limit = kTight * *std::max_element(run.levels.begin(), run.levels.end());
  const std::vector<Score> scores = Judged(runs, &all);
  for (size_t i = 0; i < runs.size(); ++i) (runs[i].is_held_back ? held_back : chosen).Add(scores[i]);
  PrintHead();
  PrintRow("**made-up runs that do not run out, on a GPU of 1.25 times what they need: the two thirds**", chosen);
  PrintRow("**the same, held back**", held_back);
  PrintBaselines(runs, "both: ", [](const Run&) { return true; });
  PrintByName(runs, scores);
}

// What cannot be told apart: a rise that fills most of what is free, and then ends.
void PrintTight(const char* path) {
  std::vector<Run> runs = RecordedRuns(path, kTight);
  std::erase_if(runs, [](const Run& run) { return run.runs_out; });
  PrintOthers("recorded programs that do not run out, on a GPU of 1.25 times what they need", runs);
}

// How far the truth lies from what is likely, in widths of that side of the range, 19 times in 20: on the two thirds
// that are not held back. kCalibrated (outlook/forecast.cc) follows from it: nine in ten are to be held.
void PrintCalibration() {
  Score chosen;
  for (const Run& run : RunsOf(FirstLaws(), 0)) {
    if (run.runs_out && !run.is_held_back) chosen.Add(Judge(run, g_every));
  }
  std::printf("| scatter | ranges | earlier | later | held |\n|---|---|---|---|---|\n");
  for (size_t i = 0; i < chosen.errors.size(); ++i) {
    std::vector<double> earlier, later;
    for (const RangeError& error : chosen.errors[i]) earlier.push_back(error.earlier), later.push_back(error.later);
    const auto held = std::count_if(chosen.errors[i].begin(), chosen.errors[i].end(),
                                    [](const RangeError& error) { return error.earlier <= 1 && error.later <= 1; });
    if (earlier.empty()) continue;
    const auto nineteen = [](std::vector<double> values) {
      std::sort(values.begin(), values.end());
      return values[(values.size() - 1) * 19 / 20];
    };
    std::printf("| %zu | %zu | %.2f | %.2f | %.1f %% |\n", i, earlier.size(), nineteen(earlier), nineteen(later),
                100 * static_cast<double>(held) / static_cast<double>(earlier.size()));
  }
}

int Main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: forecast_bench STEP_PEAKS.TSV [STEPS | --calibrate]\n");
    return 2;
  }
  if (count > 2 && std::strcmp(arguments[2], "--calibrate") == 0) {
    PrintCalibration();
    return 0;
  }
  if (count > 2) g_every = static_cast<size_t>(std::max(1, std::atoi(arguments[2])));
  PrintFirst();
  PrintOthers("laws written when the method was done", RunsOf(LaterLaws(), 100));
  PrintOthers("recorded programs", RecordedRuns(arguments[1], kHalfFull));
  PrintTightLaws();
  PrintTight(arguments[1]);
  return 0;
}

}  // namespace
}  // namespace gpumem

int main(int count, char** arguments) { return gpumem::Main(count, arguments); }

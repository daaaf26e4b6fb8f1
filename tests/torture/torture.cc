// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Kills a program that records on eight threads, over and over, and looks whether anything is missing. Ends with 0
// where all is there, else with 1 and the first thing that is not, and the command that repeats that round's choices.
//
//   torture --build build/release --rounds 100 --events 200000
//   torture --build build/release --rounds 1 --events 20000000 --seed 7 -v

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "round.h"

namespace {

struct Options {
  std::string build = ".", victim, ring_size;
  uint64_t rounds = 5, events = 200'000, seed = std::random_device()();
  bool exact_events = false;  // not a random number around `events`
  bool verbose = false;
};

struct Totals {
  uint64_t rounds = 0, acknowledged = 0, found = 0, from_ring = 0, dropped_allocs = 0, dropped_frees = 0;
  uint64_t trapped = 0, torn = 0, marked_ahead = 0, no_file = 0, with_drops = 0;

  void Add(const torture::Outcome& outcome) {
    const torture::Verdict& verdict = outcome.verdict;
    ++rounds;
    acknowledged += verdict.acknowledged, found += verdict.found, from_ring += verdict.from_ring;
    dropped_allocs += verdict.dropped_allocs, dropped_frees += verdict.dropped_frees;
    trapped += outcome.trapped, torn += verdict.torn, marked_ahead += outcome.marked_ahead, no_file += outcome.no_file;
    with_drops += verdict.dropped_allocs + verdict.dropped_frees != 0;
  }
};

bool Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0; };
    if (is("-v")) options->verbose = true;
    if (is("--exact")) options->exact_events = true;
    if (is("-v") || is("--exact")) continue;
    if (i + 1 == argc) return false;
    const char* const value = argv[i + 1];
    if (is("--build"))
      options->build = value;
    else if (is("--victim"))
      options->victim = value;
    else if (is("--ring-size"))
      options->ring_size = value;
    else if (is("--rounds"))
      options->rounds = std::strtoull(value, nullptr, 10);
    else if (is("--events"))
      options->events = std::strtoull(value, nullptr, 10);
    else if (is("--seed"))
      options->seed = std::strtoull(value, nullptr, 10);
    else
      return false;
    ++i;
  }
  return true;
}

// Half of the rounds end in the middle of an append; the others anywhere, some of them in the first instants.
torture::Round Choose(const Options& options, uint64_t number) {
  std::minstd_rand random(static_cast<uint32_t>(options.seed + number * 7919));
  random.discard(10);
  torture::Round round;
  round.seed = options.seed + number;
  round.events = options.exact_events ? options.events : 1 + random() % (2 * options.events);
  if (!options.exact_events && number % 10 == 9) round.events = 1 + random() % 2000;
  using torture::Moment;
  constexpr Moment kMoments[] = {Moment::kHalfWritten, Moment::kAnyTime,       Moment::kBeforeTheWrite,
                                 Moment::kAnyTime,     Moment::kAfterTheWrite, Moment::kAnyTime};
  round.moment = kMoments[number % std::size(kMoments)];
  round.part = static_cast<uint32_t>(random());
  constexpr uint32_t kDelaysUs[] = {0, 0, 20, 200, 2000};
  const uint32_t longest = kDelaysUs[random() % std::size(kDelaysUs)];
  round.delay_us = longest == 0 ? 0 : static_cast<uint32_t>(random() % longest);
  return round;
}

const char* NameOf(torture::Moment moment) {
  switch (moment) {
    case torture::Moment::kAnyTime:
      return "any time";
    case torture::Moment::kBeforeTheWrite:
      return "before the write";
    case torture::Moment::kHalfWritten:
      return "half written";
    case torture::Moment::kAfterTheWrite:
      break;
  }
  return "after the write";
}

void Print(uint64_t number, const torture::Round& round, const torture::Outcome& outcome) {
  const torture::Verdict& verdict = outcome.verdict;
  std::printf("round %llu (%s + %u us): %llu acknowledged, %llu found, %llu of them in the ring, %llu dropped%s%s%s\n",
              static_cast<unsigned long long>(number), NameOf(round.moment), round.delay_us,
              static_cast<unsigned long long>(verdict.acknowledged), static_cast<unsigned long long>(verdict.found),
              static_cast<unsigned long long>(verdict.from_ring),
              static_cast<unsigned long long>(verdict.dropped_allocs + verdict.dropped_frees),
              verdict.torn ? ", torn packet" : "", outcome.marked_ahead ? ", marked ahead" : "",
              outcome.no_file ? ", no file" : "");
}

void Print(const Totals& totals) {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "%llu kills: %llu events acknowledged, %llu found, %llu of them in the ring; dropped and counted: %llu "
      "allocations, %llu frees, in %llu rounds\n",
      number(totals.rounds), number(totals.acknowledged), number(totals.found), number(totals.from_ring),
      number(totals.dropped_allocs), number(totals.dropped_frees), number(totals.with_drops));
  std::printf(
      "killed in the writer's append: %llu; with half a packet in the file: %llu; with a packet marked that is not "
      "whole: %llu; before the "
      "first append: %llu\n",
      number(totals.trapped), number(totals.torn), number(totals.marked_ahead), number(totals.no_file));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: %s --build FOLDER [--victim FILE] [--rounds N] [--events N] [--exact] [--seed N] "
                 "[--ring-size SIZE] [-v]\n",
                 argv[0]);
    return 2;
  }
  const std::string lib = options.build + "/lib";
  const torture::Setup setup = {
      options.victim.empty() ? options.build + "/tests/torture/torture_victim" : options.victim,
      lib + "/libgpumemshim.so", lib + "/simcuda", options.build + "/bin/gpumemshim", options.ring_size};
  Totals totals;
  for (uint64_t number = 0; number < options.rounds; ++number) {
    const torture::Round round = Choose(options, number);
    const torture::Outcome outcome = torture::RunRound(setup, round);
    totals.Add(outcome);
    if (options.verbose || !outcome.verdict.wrong.empty()) Print(number, round, outcome);
    std::fflush(stdout);
    if (outcome.verdict.wrong.empty()) continue;
    std::printf("WRONG: %s\nleft in %s; --seed %llu\n", outcome.verdict.wrong.c_str(), outcome.folder.c_str(),
                static_cast<unsigned long long>(options.seed));
    return 1;
  }
  Print(totals);
  return 0;
}

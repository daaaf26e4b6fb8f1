// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The settings for ranks of a job (docs/environment.md): GPUMEMSHIM_SUMMARY, whether and how often summaries are
// written, and GPUMEMSHIM_RANKS, which ranks keep their traces. They depend on what the launcher said, so they are read
// after the process's facts.
//
// Thread-safety: reads the environment as getenv does. Failure: a value that makes no sense counts as absent, and
// RankSettingsLine says so.
//
//   RankSettings settings = ReadRankSettings(facts);
//   if (settings.summary_interval_ms != 0) ...

#ifndef GPUMEM_SHIM_SETTINGS_RANK_SETTINGS_H_
#define GPUMEM_SHIM_SETTINGS_RANK_SETTINGS_H_

#include <cstddef>
#include <cstdint>

#include "shim/settings/process_facts.h"

namespace gpumemshim::control {

struct RankSettings {
  uint32_t summary_interval_ms = 0;  // 0 = no summaries
  bool asked_for_summary = false;    // by the setting, not by default
  bool bad_summary = false;          // the setting makes no sense
  bool summary_only = false;         // no trace is kept
  bool bad_ranks = false;            // GPUMEMSHIM_RANKS makes no sense

  // The end of the program waits for a summary. Not by default: who reads the trace can make it as well.
  bool summary_at_end() const { return summary_interval_ms != 0 && (asked_for_summary || summary_only); }
};

inline constexpr uint32_t kSummaryIntervalMs = 600'000;

RankSettings ReadRankSettings(const ProcessFacts& facts);

// The line for stderr that names each setting without sense, what it was and what it may be. Returns its size, 0 where
// there is nothing to say.
size_t RankSettingsLine(const RankSettings& settings, char* out, size_t capacity);

// "90s", "10m", "1h" in milliseconds; 0 where the text is none of these, or beyond a week.
uint32_t ParseInterval(const char* text);

// ChosenRanks: GPUMEMSHIM_RANKS, which ranks of a job are recorded in full: "0,7,16-23,rand:8". Those of "rand" are
// chosen from the others by a hash of the job's id and its world size, so that all ranks come to the same choice
// without speaking to each other.
//
// Thread-safety: a plain value. Failure: Parse is false, and nothing is chosen.
//
//   ChosenRanks chosen;
//   if (chosen.Parse("0,rand:8") && !chosen.Has(facts.rank, facts.world_size, facts.job)) ...
class ChosenRanks {
 public:
  static constexpr size_t kMaxSpans = 64;
  static constexpr int64_t kMaxRank = 9'999'999;

  bool Parse(const char* text);

  // Where the world size is not known (-1), "rand" chooses every rank: too much is better than nothing.
  bool Has(int64_t rank, int64_t world_size, const char* job) const;

 private:
  struct Span {
    int64_t first, last;
  };

  bool IsNamed(int64_t rank) const;

  Span spans_[kMaxSpans] = {};
  size_t count_ = 0;
  int64_t random_ = 0;
};

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_SETTINGS_RANK_SETTINGS_H_

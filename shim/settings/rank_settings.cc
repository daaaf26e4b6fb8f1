// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/rank_settings.h"

#include <strings.h>

#include <cstring>
#include <initializer_list>

#include "shim/base/flat_table.h"
#include "shim/settings/settings.h"
#include "shim/settings/text.h"

namespace gpumemshim::control {
namespace {

constexpr size_t kLongestRank = 80;

bool IsNoRank(const char* text) {
  for (const char* no : {"0", "false", "no", "off", "none"}) {
    if (strcasecmp(text, no) == 0) return true;
  }
  return false;
}

void ReadSummary(const ProcessFacts& facts, RankSettings* settings) {
  const bool is_rank = facts.rank >= 0 && facts.world_size > 1 && !facts.forked;
  settings->summary_interval_ms = is_rank ? kSummaryIntervalMs : 0;
  const char* value = SettingOf("GPUMEMSHIM_SUMMARY");
  if (value == nullptr || *value == '\0') return;
  if (IsNoRank(value)) {
    settings->summary_interval_ms = 0;
  } else if (ParseSwitch(value, false)) {
    settings->summary_interval_ms = kSummaryIntervalMs;
    settings->asked_for_summary = true;
  } else if (const uint32_t interval_ms = ParseInterval(value); interval_ms != 0) {
    settings->summary_interval_ms = interval_ms;
    settings->asked_for_summary = true;
  } else {
    settings->bad_summary = true;
  }
}

void ReadRanks(const ProcessFacts& facts, RankSettings* settings) {
  const char* value = SettingOf("GPUMEMSHIM_RANKS");
  if (value == nullptr || *value == '\0') return;
  ChosenRanks chosen;
  settings->bad_ranks = !chosen.Parse(value);
  if (settings->bad_ranks || facts.rank < 0) return;
  settings->summary_only = !chosen.Has(facts.rank, facts.world_size, facts.job);
  if (settings->summary_only && settings->summary_interval_ms == 0) settings->summary_interval_ms = kSummaryIntervalMs;
}

void AddBad(const char* name, const char* allowed, Text* text) {
  const char* value = SettingOf(name);
  char printed[kLongestRank + 1];
  Text(printed, sizeof printed).Add(value == nullptr ? "" : value);
  text->Add("gpumemshim: ").Add(name).Add('=').AddPrintable(printed).Add(" is ignored: it may be ").Add(allowed);
  text->Add(" (docs/environment.md)\n");
}

}  // namespace

RankSettings ReadRankSettings(const ProcessFacts& facts) {
  RankSettings settings;
  ReadSummary(facts, &settings);
  ReadRanks(facts, &settings);
  return settings;
}

size_t RankSettingsLine(const RankSettings& settings, char* out, size_t capacity) {
  Text text(out, capacity);
  if (settings.bad_summary) AddBad("GPUMEMSHIM_SUMMARY", "on, off, or an interval such as 90s, 10m, 1h", &text);
  if (settings.bad_ranks)
    AddBad("GPUMEMSHIM_RANKS", "a list of ranks to record in full, such as 0,7,16-23,rand:8", &text);
  return text.size();
}

namespace {

// -1 where there is no number.
int64_t TakeNumber(const char** text) {
  if (**text < '0' || **text > '9') return -1;
  int64_t number = 0;
  for (; **text >= '0' && **text <= '9'; ++*text) {
    number = number * 10 + (**text - '0');
    if (number > ChosenRanks::kMaxRank) return -1;
  }
  return number;
}

uint64_t HashOf(const char* job, int64_t world_size) {
  uint64_t hash = MixBits(static_cast<uint64_t>(world_size));
  for (; *job != '\0'; ++job) hash = MixBits(hash ^ static_cast<unsigned char>(*job));
  return hash;
}

}  // namespace

bool ChosenRanks::Parse(const char* text) {
  *this = {};
  while (true) {
    while (*text == ' ') ++text;
    const bool is_random = strncasecmp(text, "rand:", 5) == 0;
    if (is_random) text += 5;
    const int64_t first = TakeNumber(&text);
    int64_t last = first;
    if (!is_random && *text == '-') {
      ++text;
      last = TakeNumber(&text);
    }
    if (first < 0 || last < first || (!is_random && count_ == kMaxSpans)) break;
    if (is_random) {
      random_ += first;
    } else {
      spans_[count_++] = {first, last};
    }
    while (*text == ' ') ++text;
    if (*text == '\0') return true;
    if (*text++ != ',') break;
  }
  *this = {};
  return false;
}

bool ChosenRanks::IsNamed(int64_t rank) const {
  for (size_t i = 0; i < count_; ++i) {
    if (rank >= spans_[i].first && rank <= spans_[i].last) return true;
  }
  return false;
}

bool ChosenRanks::Has(int64_t rank, int64_t world_size, const char* job) const {
  if (IsNamed(rank)) return true;
  if (random_ == 0) return false;
  if (world_size < 0) return true;
  // The `random_` ranks with the smallest hashes.
  const uint64_t seed = HashOf(job, world_size);
  const auto hash = [seed](int64_t of) { return MixBits(seed + static_cast<uint64_t>(of) * 0x9e3779b97f4a7c15u); };
  int64_t before = 0;
  for (int64_t other = 0; other < world_size && before < random_; ++other) {
    if (IsNamed(other)) continue;
    before += hash(other) < hash(rank) || (hash(other) == hash(rank) && other < rank) ? 1 : 0;
  }
  return before < random_;
}

}  // namespace gpumemshim::control

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/chosen_ranks.h"

#include <strings.h>

#include <cstring>

#include "shim/base/flat_table.h"

namespace gpumemshim::control {
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

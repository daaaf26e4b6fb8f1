// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/peak_groups.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace gpumem {
namespace {

constexpr size_t kMaxText = 200;  // bytes of a module's name or a line, so that a summary stays small

std::string Short(std::string text) {
  if (text.size() <= kMaxText) return text;
  size_t size = kMaxText;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;  // not inside a character
  return text.substr(0, size) + "...";
}

}  // namespace

void ReadPeakGroups(const RunFacts& facts, RankSummary* rank) {
  std::map<std::tuple<Category, std::string, std::string>, PeakGroup> groups;
  for (const LiveGroup& each : facts.groups) {
    const Category category = rank->events_before == 0 ? each.category : Category::kUnknown;  // as in read_rank.cc
    PeakGroup group{category, Short(each.module), Short(PlaceText(each.place))};
    PeakGroup& sum = groups.try_emplace({group.category, group.module, group.line}, group).first->second;
    sum.bytes += each.bytes;
    sum.blocks += each.count;
  }
  rank->peak_groups.clear();
  rank->other_peak_bytes = 0;
  rank->knows_peak_groups = facts.has_moment;
  for (auto& [key, group] : groups) rank->peak_groups.push_back(std::move(group));
  std::stable_sort(rank->peak_groups.begin(), rank->peak_groups.end(),
                   [](const PeakGroup& a, const PeakGroup& b) { return a.bytes > b.bytes; });
  while (rank->peak_groups.size() > kMaxPeakGroups) {
    rank->other_peak_bytes += rank->peak_groups.back().bytes;
    rank->peak_groups.pop_back();
  }
}

}  // namespace gpumem

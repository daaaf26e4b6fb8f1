// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/model_parts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/string_view.h"

namespace gpumem {
namespace {

constexpr double kTelling = 0.01;    // of a rank's elements: names that hold less say nothing (a share of nothing)
constexpr double kMostlySame = 0.5;  // of the elements of two sets: one may be the other with something added
constexpr size_t kLeastForLone = 4;  // ranks, of which one alone that has other names is odd, not a part

using Elements = std::map<uint64_t, uint64_t>;  // by a hash of names

// Names of one rank.
struct NameSet {
  Elements names;
  std::set<uint64_t> folded;
  uint64_t elements = 0;
};

NameSet NamesOf(const RankSummary& rank) {
  NameSet set;
  for (const HeldParameter& held : rank.parameters) {
    set.names[held.name] += held.elements;
    set.elements += held.elements;
    if (held.elements > 0) set.folded.insert(held.folded);
  }
  return set;
}

// Elements under names that `other` does not have.
uint64_t Without(const NameSet& set, const NameSet& other) {
  uint64_t sum = 0;
  for (const auto& [name, elements] : set.names) sum += other.names.contains(name) ? 0 : elements;
  return sum;
}

bool HasOwn(const NameSet& set, const NameSet& other) {
  return static_cast<double>(Without(set, other)) > kTelling * static_cast<double>(set.elements);
}

bool IsSame(const NameSet& a, const NameSet& b) { return !HasOwn(a, b) && !HasOwn(b, a); }

// One is the other with more of the same: layers of a list.
bool IsExtended(const NameSet& a, const NameSet& b) {
  if (HasOwn(a, b) && HasOwn(b, a)) return false;
  const NameSet &more = HasOwn(a, b) ? a : b, &less = HasOwn(a, b) ? b : a;
  const uint64_t common = more.elements - Without(more, less);
  return more.folded == less.folded && static_cast<double>(common) >= kMostlySame * static_cast<double>(more.elements);
}

struct Group {
  NameSet names;
  std::vector<size_t> members;  // indices of ranks
  size_t part = 0;
};

std::vector<Group> GroupsOf(const std::vector<RankSummary>& ranks) {
  std::vector<Group> groups;
  for (size_t i = 0; i < ranks.size(); ++i) {
    NameSet names = NamesOf(ranks[i]);
    if (names.elements == 0) continue;
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return IsSame(group.names, names); });
    if (found != groups.end()) {
      found->members.push_back(i);
    } else {
      groups.push_back({std::move(names), {i}, groups.size()});
    }
  }
  return groups;
}

// Whether the ranks are split by design: some hold what others do not, and the other way round.
bool IsSplit(const std::vector<Group>& groups) {
  const bool is_one_odd = groups.size() == 2 && std::min(groups[0].members.size(), groups[1].members.size()) == 1 &&
                          groups[0].members.size() + groups[1].members.size() >= kLeastForLone;
  if (is_one_odd) return false;
  for (const Group& a : groups) {
    for (const Group& b : groups) {
      if (HasOwn(a.names, b.names) && HasOwn(b.names, a.names)) return true;
    }
  }
  return false;
}

// A group that is a larger one with more or fewer layers is in its part.
void JoinExtended(std::vector<Group>* groups) {
  for (Group& group : *groups) {
    for (const Group& larger : *groups) {
      if (larger.members.size() > group.members.size() && larger.members.size() > 1 &&
          IsExtended(group.names, larger.names))
        group.part = larger.part;
    }
  }
}

// -1 where it is not known.
int64_t RankIn(const RankSummary& rank, absl::string_view role) {
  for (const RankRole& each : rank.roles) {
    if (each.name == role) return each.rank;
  }
  return -1;
}

bool Everyone(const std::vector<RankSummary>& ranks, absl::string_view role) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const RankSummary& rank) { return RankIn(rank, role) >= 0; });
}

}  // namespace

std::vector<size_t> PartsOfModel(const std::vector<RankSummary>& ranks) {
  std::vector<size_t> parts(ranks.size(), 0);
  std::vector<Group> groups = GroupsOf(ranks);
  if (IsSplit(groups)) {
    JoinExtended(&groups);
    for (const Group& group : groups) {
      for (const size_t member : group.members) parts[member] = group.part;
    }
  }
  const bool has_stages = Everyone(ranks, "pp"), has_experts = Everyone(ranks, "ep");
  std::map<std::tuple<size_t, int64_t, int64_t>, size_t> numbers;  // without gaps
  for (size_t i = 0; i < ranks.size(); ++i) {
    const std::tuple key(parts[i], has_stages ? RankIn(ranks[i], "pp") : -1, has_experts ? RankIn(ranks[i], "ep") : -1);
    parts[i] = numbers.try_emplace(key, numbers.size()).first->second;
  }
  return parts;
}

}  // namespace gpumem

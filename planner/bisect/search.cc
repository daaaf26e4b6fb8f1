// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/bisect/search.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "base/status_macros.h"

namespace gpumem::plan {
namespace {

int64_t Difference(uint64_t before, uint64_t after) {
  return static_cast<int64_t>(after) - static_cast<int64_t>(before);
}

}  // namespace

size_t HistorySearch::DefaultLooks(size_t count) {
  constexpr size_t kAlways = 12;
  size_t looks = kAlways;
  for (size_t size = kAlways; size < count; size *= 2) looks += 2;
  return looks;
}

absl::Status HistorySearch::LookAt(size_t index) {
  if (looks_.count(index) != 0) return absl::OkStatus();
  GPUMEM_ASSIGN_OR_RETURN(looks_[index], look_(index));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<size_t>> HistorySearch::LookForEnd(size_t index, size_t towards) {
  while (true) {
    GPUMEM_RETURN_IF_ERROR(LookAt(index));
    if (looks_[index].has_value()) return index;
    if (index == towards) return std::nullopt;
    index += index < towards ? 1 : size_t(-1);
  }
}

HistorySearch::Stretch HistorySearch::Between(size_t begin, size_t end) const {
  Stretch stretch{begin, end, std::nullopt, 0, 0};
  const auto distance = [&](size_t index) { return std::abs(Difference(begin + end, 2 * index)); };
  for (size_t index = begin + 1; index < end; ++index) {
    if (looks_.count(index) != 0) {
      ++stretch.failed;
      continue;
    }
    ++stretch.unlooked;
    if (!stretch.middle.has_value() || distance(index) < distance(*stretch.middle)) stretch.middle = index;
  }
  return stretch;
}

std::vector<HistorySearch::Stretch> HistorySearch::Stretches() const {
  std::vector<Stretch> stretches;
  std::optional<size_t> begin;
  for (const auto& [index, bytes] : looks_) {
    if (!bytes.has_value()) continue;
    if (begin.has_value()) stretches.push_back(Between(*begin, index));
    begin = index;
  }
  return stretches;
}

int64_t HistorySearch::ChangeOf(const Stretch& stretch) const {
  return Difference(bytes(stretch.begin), bytes(stretch.end));
}

HistoryStep HistorySearch::StepOf(const Stretch& stretch) const {
  return {stretch.begin, stretch.end, ChangeOf(stretch), stretch.failed, stretch.unlooked};
}

bool HistorySearch::Counts(const Stretch& stretch, double least_share) const {
  const double larger = static_cast<double>(std::max(bytes(stretch.begin), bytes(stretch.end)));
  const auto change = static_cast<double>(std::abs(ChangeOf(stretch)));
  return change > 0 && change >= least_share * larger;
}

absl::Status HistorySearch::FindSteps(const Limits& limits) {
  const size_t most = limits.most_looks == 0 ? DefaultLooks(count_) : limits.most_looks;
  if (count_ == 0) return absl::OkStatus();
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<size_t> begin, LookForEnd(0, count_ - 1));
  if (!begin.has_value()) return absl::OkStatus();
  GPUMEM_RETURN_IF_ERROR(LookForEnd(count_ - 1, *begin).status());
  while (true) {
    const Stretch* next = nullptr;
    const std::vector<Stretch> stretches = Stretches();
    for (const Stretch& stretch : stretches) {
      if (!stretch.middle.has_value()) continue;
      const auto rank = [&](const Stretch& one) {
        const bool counts = Counts(one, limits.least_share);
        return std::make_tuple(counts, counts ? std::abs(ChangeOf(one)) : 0, one.unlooked);
      };
      if (next == nullptr || rank(stretch) > rank(*next)) next = &stretch;
    }
    if (next == nullptr || (!Counts(*next, limits.least_share) && looks_.size() >= most)) return absl::OkStatus();
    GPUMEM_RETURN_IF_ERROR(LookAt(*next->middle));
  }
}

absl::Status HistorySearch::FindFirstAbove(uint64_t limit) {
  if (count_ == 0) return absl::OkStatus();
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<size_t> begin, LookForEnd(0, count_ - 1));
  if (!begin.has_value()) return absl::OkStatus();
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<size_t> end, LookForEnd(count_ - 1, *begin));
  if (bytes(*begin) > limit || bytes(*end) <= limit) return absl::OkStatus();
  size_t below = *begin, above = *end;
  for (Stretch stretch = Between(below, above); stretch.middle.has_value(); stretch = Between(below, above)) {
    const size_t middle = *stretch.middle;
    GPUMEM_RETURN_IF_ERROR(LookAt(middle));
    if (looks_[middle].has_value()) (bytes(middle) > limit ? above : below) = middle;
  }
  crossing_ = StepOf(Between(below, above));
  return absl::OkStatus();
}

std::vector<HistoryStep> HistorySearch::steps() const {
  std::vector<HistoryStep> steps;
  for (const Stretch& stretch : Stretches()) {
    if (ChangeOf(stretch) != 0) steps.push_back(StepOf(stretch));
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const HistoryStep& a, const HistoryStep& b) { return std::abs(a.change) > std::abs(b.change); });
  return steps;
}

std::optional<size_t> HistorySearch::first() const {
  for (const auto& [index, bytes] : looks_) {
    if (bytes.has_value()) return index;
  }
  return std::nullopt;
}

std::optional<size_t> HistorySearch::last() const {
  for (auto look = looks_.rbegin(); look != looks_.rend(); ++look) {
    if (look->second.has_value()) return look->first;
  }
  return std::nullopt;
}

SmallestSet::Set SmallestSet::SetOf(const std::vector<size_t>& changes) const {
  Set set(count_, false);
  for (const size_t change : changes) set[change] = true;
  return set;
}

std::optional<uint64_t> SmallestSet::BytesOf(const Set& set) const {
  const auto found = looks_.find(set);
  return found == looks_.end() ? std::nullopt : found->second;
}

absl::StatusOr<std::optional<uint64_t>> SmallestSet::LookAt(const Set& set) {
  if (const auto found = looks_.find(set); found != looks_.end()) return found->second;
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<uint64_t> bytes, look_(set));
  looks_[set] = bytes;
  return bytes;
}

absl::StatusOr<bool> SmallestSet::Covers(const std::vector<size_t>& changes) {
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<uint64_t> bytes, LookAt(SetOf(changes)));
  if (!bytes.has_value()) return false;
  const auto whole = static_cast<double>(Difference(none_, all_)),
             part = static_cast<double>(Difference(none_, *bytes));
  return part / whole >= kShare;
}

// Tries the parts by themselves, then all but each.
absl::StatusOr<bool> SmallestSet::Reduce(size_t parts, std::vector<size_t>* changes, bool* was_complement) {
  for (const bool complement : {false, true}) {
    if (complement && parts == 2) break;  // the other part, which was tried
    for (size_t part = 0; part < parts; ++part) {
      const size_t begin = changes->size() * part / parts, end = changes->size() * (part + 1) / parts;
      std::vector<size_t> tried;
      for (size_t i = 0; i < changes->size(); ++i) {
        if ((i >= begin && i < end) != complement) tried.push_back((*changes)[i]);
      }
      GPUMEM_ASSIGN_OR_RETURN(const bool covers, Covers(tried));
      if (!covers) continue;
      *changes = tried;
      *was_complement = complement;
      return true;
    }
  }
  return false;
}

absl::StatusOr<std::optional<SmallestSet::Set>> SmallestSet::Find() {
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<uint64_t> none, LookAt(Set(count_, false)));
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<uint64_t> all, LookAt(Set(count_, true)));
  if (!none.has_value() || !all.has_value() || *none == *all) return std::nullopt;
  none_ = *none;
  all_ = *all;
  std::vector<size_t> changes(count_);
  for (size_t i = 0; i < count_; ++i) changes[i] = i;
  for (size_t parts = 2; changes.size() >= 2;) {
    bool was_complement = false;
    GPUMEM_ASSIGN_OR_RETURN(const bool reduced, Reduce(std::min(parts, changes.size()), &changes, &was_complement));
    if (reduced) {
      parts = was_complement ? std::max<size_t>(parts - 1, 2) : 2;
    } else if (parts >= changes.size()) {
      break;
    } else {
      parts = std::min(changes.size(), 2 * parts);
    }
  }
  return SetOf(changes);
}

}  // namespace gpumem::plan

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/cause.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "answers/compare/names.h"
#include "base/format.h"

namespace gpumem {
namespace {

constexpr double kLeastShareOfCause = 0.5;  // of the difference, for a sentence that names one cause
constexpr double kNearlyBest = 0.8;         // of the best group's share: a more specific one is taken instead
constexpr double kMostOfGroup = 0.6;        // of a group: its line is named

struct Candidate {
  std::string noun;
  int depth = 0;  // the more specific the higher
  TwoUses uses;
};

using Candidates = std::map<std::string, Candidate>;

void AddTo(Candidates* candidates, std::string noun, int depth, const LiveGroup& group, bool is_a) {
  Candidate& candidate = (*candidates)[noun];
  candidate.noun = std::move(noun);
  candidate.depth = depth;
  is_a ? candidate.uses.AddA(group) : candidate.uses.AddB(group);
}

void AddGroup(const LiveGroup& group, bool is_a, Candidates* candidates) {
  const bool is_known = group.category != Category::kUnknown;
  const std::string title(is_known ? CategoryTitle(group.category) : "memory of unknown use");
  AddTo(candidates, title, 1, group, is_a);
  if (group.is_loss) {
    AddTo(candidates, absl::StrCat(title, " of the loss"), 5, group, is_a);
    AddTo(candidates, "memory of the loss", 4, group, is_a);
  }
  int depth = 2;
  for (const std::string& prefix : Prefixes(FoldNumbers(group.module))) {
    AddTo(candidates, absl::StrCat("memory of ", prefix), depth, group, is_a);
    AddTo(candidates, absl::StrCat(title, " of ", prefix), depth + 1, group, is_a);
    depth += 2;
  }
  if (!group.module.empty() || group.place.line == 0) return;
  AddTo(candidates, absl::StrCat("memory at ", PlaceText(group.place)), 3, group, is_a);  // of whatever category
  if (is_known) AddTo(candidates, absl::StrCat(title, " at ", PlaceText(group.place)), 4, group, is_a);
}

// The line that most of a group's difference comes from; "" where there is none.
std::string LineOf(const Diff& diff, const std::string& noun, int64_t delta) {
  Candidates lines;
  const auto add = [&](const LiveGroup& group, bool is_a) {
    if (!IsOfSubject(diff, group) || group.place.line == 0) return;
    Candidates own;
    AddGroup(group, is_a, &own);
    if (own.contains(noun)) AddTo(&lines, PlaceText(group.place), 0, group, is_a);
  };
  for (const LiveGroup& group : diff.a.groups) add(group, true);
  for (const LiveGroup& group : diff.b.groups) add(group, false);
  for (const auto& [line, candidate] : lines) {
    const int64_t part = candidate.uses.delta();
    if ((part < 0) == (delta < 0) && static_cast<double>(part) / static_cast<double>(delta) >= kMostOfGroup)
      return line;
  }
  return "";
}

std::string GroupText(const Diff& diff, const Candidate& candidate) {
  std::string text = absl::StrCat(candidate.noun, ", ", UsesText(candidate.uses));
  if (candidate.noun.find(" at ") != std::string::npos) return text;
  const std::string line = LineOf(diff, candidate.noun, candidate.uses.delta());
  return line.empty() ? text : absl::StrCat(text, " (", line, ")");
}

// Categories do not overlap.
Cause TwoLargest(const Diff& diff, const Candidates& candidates) {
  std::vector<const Candidate*> ordered;
  for (const auto& [noun, candidate] : candidates) {
    if (candidate.depth == 1 && ShareOf(diff, candidate.uses.delta()) > 0.1) ordered.push_back(&candidate);
  }
  std::sort(ordered.begin(), ordered.end(), [&](const Candidate* x, const Candidate* y) {
    return ShareOf(diff, x->uses.delta()) > ShareOf(diff, y->uses.delta());
  });
  Cause cause;
  cause.kind = CauseKind::kUnknown;
  if (ordered.size() < 2) return cause;
  const int64_t first = ordered[0]->uses.delta(), second = ordered[1]->uses.delta();
  cause.explained = first + second;
  if (ShareOf(diff, cause.explained) < kLeastShareOfCause) return cause;
  cause.kind = CauseKind::kSeveral;
  cause.text = absl::StrCat("several causes, most by ", ordered[0]->noun, " (", SignedChange(first), ") and ",
                            ordered[1]->noun, " (", SignedChange(second), ")");
  return cause;
}

// The line whose memory beside PyTorch changed most, each at its own peak.
Cause LineBeside(const Diff& diff) {
  std::map<std::string, std::pair<uint64_t, uint64_t>> lines;
  for (const auto& [site, bytes] : diff.a.beside) lines[site].first += bytes;
  for (const auto& [site, bytes] : diff.b.beside) lines[site].second += bytes;
  Cause cause{CauseKind::kUnknown, "", 0};
  for (const auto& [site, bytes] : lines) {
    const auto change = static_cast<int64_t>(bytes.second) - static_cast<int64_t>(bytes.first);
    if (std::abs(change) <= std::abs(cause.explained) || ShareOf(diff, change) < kLeastShareOfCause) continue;
    cause = {CauseKind::kOutside, absl::StrCat(site, ", ", FormatBytes(bytes.first), " -> ", FormatBytes(bytes.second)),
             change};
  }
  return cause;
}

Cause OutsideCause(const Diff& diff) {
  Cause cause = FindGroup(diff);
  const int64_t context = static_cast<int64_t>(diff.b.context) - static_cast<int64_t>(diff.a.context);
  if (ShareOf(diff, context) < kLeastShareOfCause) return cause.kind == CauseKind::kUnknown ? LineBeside(diff) : cause;
  return {CauseKind::kOutside,
          absl::StrCat("the CUDA context, its modules and kernels' local memory, ", FormatBytes(diff.a.context), " -> ",
                       FormatBytes(diff.b.context)),
          context};
}

int64_t Change(uint64_t was, uint64_t now) { return static_cast<int64_t>(now) - static_cast<int64_t>(was); }

Cause HostCause(const Diff& diff) {
  std::string text;
  for (const auto& [name, of] : {std::pair("pinned memory of the host, ", &RunFacts::peak_pinned),
                                 std::pair("managed memory, ", &RunFacts::peak_managed)}) {
    if (diff.a.*of == diff.b.*of) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", name, FormatBytes(diff.a.*of), " -> ", FormatBytes(diff.b.*of));
  }
  return {CauseKind::kOutside, std::move(text), diff.delta};
}

// PyTorch's segments beyond its blocks: at the moment, or of peaks, each at its own.
int64_t Unused(const RunFacts& facts, bool are_peaks) {
  return are_peaks ? Change(facts.peak_allocated, facts.peak_reserved)
                   : Change(facts.values.allocated, facts.values.reserved);
}

Cause ReservedCause(const Diff& diff) {
  const bool are_peaks = ArePeaks(diff);
  const auto bytes = [&](const RunFacts& facts) {
    return FormatBytes(static_cast<uint64_t>(std::max<int64_t>(Unused(facts, are_peaks), 0)));
  };
  std::string text =
      absl::StrCat("PyTorch keeps ", bytes(diff.a), " -> ", bytes(diff.b),
                   are_peaks ? " beyond the peak of what tensors use" : " in segments that no tensor uses");
  const RunFacts& more = diff.delta < 0 ? diff.a : diff.b;
  if (are_peaks && !more.stranded.empty()) absl::StrAppend(&text, "; in ", diff.delta < 0 ? "A " : "B ", more.stranded);
  return {CauseKind::kAllocator, text, Unused(diff.b, are_peaks) - Unused(diff.a, are_peaks)};
}

}  // namespace

std::string SignedChange(int64_t bytes) {
  return absl::StrCat(bytes < 0 ? "-" : "+", FormatBytes(static_cast<uint64_t>(std::abs(bytes))));
}

bool ArePeaks(const Diff& diff) {
  return !diff.same_trace && diff.a.moment == "peak" && diff.b.moment == "peak" && diff.a.measure != Measure::kTotal &&
         diff.b.measure != Measure::kTotal;
}

namespace {

int64_t LargerOf(int64_t a, int64_t b) { return std::abs(a) >= std::abs(b) ? a : b; }

}  // namespace

SeriesChanges ChangesOf(const Diff& diff) {
  const RunFacts &a = diff.a, &b = diff.b;
  const int64_t context = Change(a.context, b.context);
  if (ArePeaks(diff))
    return {Change(a.peak_allocated, b.peak_allocated), Change(a.peak_reserved, b.peak_reserved),
            Change(a.peak_other, b.peak_other) + context,
            a.knows_host && b.knows_host
                ? LargerOf(Change(a.peak_pinned, b.peak_pinned), Change(a.peak_managed, b.peak_managed))
                : 0};
  return {Change(a.values.allocated, b.values.allocated), Change(a.values.reserved, b.values.reserved),
          Change(a.values.other, b.values.other) + context, 0};
}

absl::string_view CauseKindName(CauseKind kind) {
  constexpr absl::string_view kNames[] = {"none",       "unknown",      "several", "group",     "layers",
                                          "model_copy", "dtype",        "frozen",  "optimizer", "inputs",
                                          "recompute",  "accumulation", "leak",    "allocator", "outside"};
  return kNames[static_cast<size_t>(kind)];
}

std::string UsesText(const TwoUses& uses) {
  const auto side = [](uint64_t bytes, uint64_t count, uint64_t smallest, uint64_t largest) {
    if (count == 0) return std::string("none");
    if (count == 1) return FormatBytes(largest);
    if (smallest == largest) return absl::StrCat(FormatCount(count), " x ", FormatBytes(largest));
    return absl::StrCat(FormatBytes(bytes), " in ", FormatCountOf(count, "block", "blocks"));
  };
  const std::string a = side(uses.a_bytes, uses.a_count, uses.a_smallest, uses.a_largest);
  const std::string b = side(uses.b_bytes, uses.b_count, uses.b_smallest, uses.b_largest);
  return absl::StrCat(a, " -> ", b);
}

double ShareOf(const Diff& diff, int64_t bytes) {
  return diff.delta == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(diff.delta);
}

bool IsOfSubject(const Diff& diff, const LiveGroup& group) {
  if (diff.subject == "total") return true;
  return group.of_torch == (diff.subject == "allocated");
}

constexpr int64_t kLeastOfHost = int64_t{1} << 20;

void ChooseSubject(Diff* diff) {
  const RunFacts &a = diff->a, &b = diff->b;
  if (a.measure == Measure::kTotal && b.measure == Measure::kTotal) {
    diff->subject = "total";
    diff->delta = Change(a.values.total, b.values.total);
    return;
  }
  const SeriesChanges changes = ChangesOf(*diff);
  const int64_t unused = changes.reserved - changes.allocated;
  diff->subject = "allocated";
  diff->delta = changes.allocated;
  const int64_t most = std::max(std::abs(unused), std::abs(changes.outside));
  if (std::abs(changes.host) > std::max(kLeastOfHost, 2 * std::max(std::abs(changes.allocated), most))) {
    diff->subject = "host";
    diff->delta = changes.host;
    return;
  }
  if (most <= 2 * std::abs(changes.allocated)) return;
  const bool is_reserved = std::abs(unused) >= std::abs(changes.outside);
  diff->subject = is_reserved ? "reserved" : "outside";
  diff->delta = is_reserved ? changes.reserved : changes.outside;
}

Cause FindGroup(const Diff& diff) {
  Candidates candidates;
  for (const LiveGroup& group : diff.a.groups) {
    if (IsOfSubject(diff, group)) AddGroup(group, true, &candidates);
  }
  for (const LiveGroup& group : diff.b.groups) {
    if (IsOfSubject(diff, group)) AddGroup(group, false, &candidates);
  }
  double best_share = 0;
  for (const auto& [noun, candidate] : candidates)
    best_share = std::max(best_share, std::min(ShareOf(diff, candidate.uses.delta()), 1.0));
  if (best_share < kLeastShareOfCause) return TwoLargest(diff, candidates);
  const Candidate* best = nullptr;
  for (const auto& [noun, candidate] : candidates) {
    const double share = ShareOf(diff, candidate.uses.delta());
    if (share < std::max(kLeastShareOfCause, kNearlyBest * best_share)) continue;
    const bool is_better = best == nullptr || candidate.depth > best->depth ||
                           (candidate.depth == best->depth && share > ShareOf(diff, best->uses.delta()));
    if (is_better) best = &candidate;
  }
  return {CauseKind::kGroup, GroupText(diff, *best), best->uses.delta()};
}

Cause FindCause(const Diff& diff) {
  if (!diff.a.has_moment || !diff.b.has_moment) return {CauseKind::kUnknown, "", 0};
  if (diff.delta == 0) return {};
  if (diff.subject == "reserved") return ReservedCause(diff);
  if (diff.subject == "outside") return OutsideCause(diff);
  if (diff.subject == "host") return HostCause(diff);
  Cause group = FindGroup(diff);
  if (!diff.same_trace) group.text += OtherShapes(diff);
  const std::vector<Cause> changes = FindProgramChanges(diff);
  if (changes.empty()) return group;
  const bool is_worse =
      group.kind == CauseKind::kGroup &&
      ShareOf(diff, changes.front().explained) < kNearlyBest * std::min(ShareOf(diff, group.explained), 1.0);
  return is_worse ? group : changes.front();
}

}  // namespace gpumem

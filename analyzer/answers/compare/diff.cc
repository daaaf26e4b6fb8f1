// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/diff.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/compare/cause.h"
#include "answers/compare/headline.h"
#include "answers/compare/names.h"
#include "answers/compare/plan_parts.h"
#include "base/format.h"

namespace gpumem {
namespace {

using NameOf = std::function<std::string(const LiveGroup&)>;

uint64_t Size(int64_t delta) { return static_cast<uint64_t>(std::abs(delta)); }

void SortRows(std::vector<DiffRow>* rows) {
  std::stable_sort(rows->begin(), rows->end(),
                   [](const DiffRow& x, const DiffRow& y) { return Size(x.delta()) > Size(y.delta()); });
}

std::vector<DiffRow> RowsBy(const RunFacts& a, const RunFacts& b, const NameOf& name_of) {
  std::map<std::string, DiffRow> rows;
  for (const LiveGroup& group : a.groups) rows[name_of(group)].uses.AddA(group);
  for (const LiveGroup& group : b.groups) rows[name_of(group)].uses.AddB(group);
  std::vector<DiffRow> result;
  for (auto& [name, row] : rows) {
    row.name = name;
    result.push_back(std::move(row));
  }
  SortRows(&result);
  return result;
}

// What no block accounts for is in the categories too: what the allocator keeps, contexts.
std::vector<DiffRow> CategoryRows(const RunFacts& a, const RunFacts& b) {
  std::vector<DiffRow> rows;
  for (size_t i = 0; i < kCategories; ++i) {
    DiffRow row;
    row.name = std::string(CategoryTitle(static_cast<Category>(i)));
    for (const LiveGroup& group : a.groups) {
      if (Index(group.category) == i) row.uses.AddA(group);
    }
    for (const LiveGroup& group : b.groups) {
      if (Index(group.category) == i) row.uses.AddB(group);
    }
    row.uses.a_bytes = a.categories[i];
    row.uses.b_bytes = b.categories[i];
    if (row.uses.a_bytes != 0 || row.uses.b_bytes != 0) rows.push_back(std::move(row));
  }
  SortRows(&rows);
  return rows;
}

DiffRow SeriesRow(absl::string_view name, uint64_t a, uint64_t b) {
  DiffRow row;
  row.name = std::string(name);
  row.uses.a_bytes = a;
  row.uses.b_bytes = b;
  return row;
}

std::vector<DiffRow> SeriesRows(const RunFacts& a, const RunFacts& b, bool same_trace) {
  std::vector<DiffRow> rows{SeriesRow("allocated at that moment", a.values.allocated, b.values.allocated),
                            SeriesRow("reserved at that moment", a.values.reserved, b.values.reserved),
                            SeriesRow("outside PyTorch at that moment", a.values.other, b.values.other)};
  if (!same_trace) {
    rows.push_back(SeriesRow("peak allocated", a.peak_allocated, b.peak_allocated));
    rows.push_back(SeriesRow("peak reserved", a.peak_reserved, b.peak_reserved));
    rows.push_back(SeriesRow("peak of all CUDA memory", a.peak_total, b.peak_total));
    for (const auto& [name, of] : {std::pair("pinned memory of the host, at most", &RunFacts::peak_pinned),
                                   std::pair("managed memory, at most", &RunFacts::peak_managed)})
      if (a.*of != 0 || b.*of != 0) rows.push_back(SeriesRow(name, a.*of, b.*of));
  }
  rows.push_back(SeriesRow("CUDA context", a.context, b.context));
  return rows;
}

std::string ModuleName(const LiveGroup& group) {
  if (!group.module.empty()) return FoldNumbers(group.module);
  if (!group.root_class.empty()) return absl::StrCat("(", group.root_class, ")");
  return "(no module)";
}

void AddMaps(absl::string_view what, const std::map<std::string, std::string>& a,
             const std::map<std::string, std::string>& b, std::vector<SettingChange>* changes) {
  std::set<std::string> names;
  for (const auto& [name, value] : a) names.insert(name);
  for (const auto& [name, value] : b) names.insert(name);
  for (const std::string& name : names) {
    const auto in_a = a.find(name), in_b = b.find(name);
    const std::string was = in_a == a.end() ? "" : in_a->second, now = in_b == b.end() ? "" : in_b->second;
    if (was != now && !name.ends_with("_OUTPUT")) changes->push_back({absl::StrCat(what, " ", name), was, now});
  }
}

// The words of two command lines that are not the same: from the first to the last difference, without what both have
// at their beginnings and ends.
void AddCommandLines(const std::vector<std::string>& a, const std::vector<std::string>& b,
                     std::vector<SettingChange>* changes) {
  size_t begin = 0, end = 0;
  while (begin < a.size() && begin < b.size() && a[begin] == b[begin]) ++begin;
  while (end < a.size() - begin && end < b.size() - begin && a[a.size() - 1 - end] == b[b.size() - 1 - end]) ++end;
  if (begin == a.size() && begin == b.size()) return;
  // The flag whose value it is.
  if (begin > 0 && a[begin - 1].starts_with("-") && !a[begin - 1].empty()) --begin;
  const auto words = [&](const std::vector<std::string>& all) {
    return absl::StrJoin(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end() - static_cast<std::ptrdiff_t>(end),
                         " ");
  };
  changes->push_back({"command line", words(a), words(b)});
}

std::string ShapesText(const std::vector<std::vector<uint64_t>>& shapes) {
  std::vector<std::string> texts;
  for (const auto& shape : shapes) texts.push_back(absl::StrCat("[", absl::StrJoin(shape, ", "), "]"));
  return absl::StrJoin(texts, " ");
}

std::vector<SettingChange> SettingChanges(const RunFacts& a, const RunFacts& b) {
  std::vector<SettingChange> changes;
  AddCommandLines(a.command_line, b.command_line, &changes);
  if (a.inputs != b.inputs) changes.push_back({"inputs of the model", ShapesText(a.inputs), ShapesText(b.inputs)});
  if (a.optimizers != b.optimizers)
    changes.push_back({"optimizer", absl::StrJoin(a.optimizers, ", "), absl::StrJoin(b.optimizers, ", ")});
  if (a.device_name != b.device_name) changes.push_back({"GPU", a.device_name, b.device_name});
  AddMaps("version", a.versions, b.versions, &changes);
  AddMaps("environment", a.environment, b.environment, &changes);
  if (PlanOf(a, b) == PlanSide::kNone) AddMaps("recorder's", a.settings, b.settings, &changes);
  return changes;
}

void ShowRenames(const std::vector<Renamed>& renamed, std::vector<DiffRow>* rows, Renamed::Kind kind) {
  for (DiffRow& row : *rows) {
    for (const Renamed& each : renamed) {
      if (each.kind == kind && each.now == row.name) row.was = each.was;
    }
  }
}

}  // namespace

void TwoUses::AddA(const LiveGroup& group) {
  a_smallest = a_count == 0 ? group.smallest : std::min(a_smallest, group.smallest);
  a_largest = std::max(a_largest, group.largest);
  a_bytes += group.bytes;
  a_count += group.count;
}

void TwoUses::AddB(const LiveGroup& group) {
  b_smallest = b_count == 0 ? group.smallest : std::min(b_smallest, group.smallest);
  b_largest = std::max(b_largest, group.largest);
  b_bytes += group.bytes;
  b_count += group.count;
}

RowChange DiffRow::change() const {
  if (uses.a_bytes == uses.b_bytes) return RowChange::kSame;
  if (uses.a_bytes == 0) return RowChange::kNew;
  if (uses.b_bytes == 0) return RowChange::kGone;
  return delta() > 0 ? RowChange::kLarger : RowChange::kSmaller;
}

absl::string_view RowChangeName(RowChange change) {
  constexpr absl::string_view kNames[] = {"same", "new", "gone", "larger", "smaller"};
  return kNames[static_cast<size_t>(change)];
}

Diff DiffRuns(RunFacts a, RunFacts b, bool same_trace) {
  Diff diff;
  diff.same_trace = same_trace;
  if (!same_trace) diff.renamed = MatchNames(&a, b);
  diff.series = SeriesRows(a, b, same_trace);
  diff.categories = CategoryRows(a, b);
  diff.modules = RowsBy(a, b, ModuleName);
  diff.lines = RowsBy(a, b, [](const LiveGroup& group) { return PlaceText(group.place); });
  diff.stacks = RowsBy(a, b, [](const LiveGroup& group) {
    return absl::StrCat(PlaceText(group.place), group.stack.empty() ? "" : " | ", group.stack);
  });
  ShowRenames(diff.renamed, &diff.lines, Renamed::Kind::kLine);
  ShowRenames(diff.renamed, &diff.modules, Renamed::Kind::kModule);
  if (!same_trace) diff.settings = SettingChanges(a, b);
  diff.a = std::move(a);
  diff.b = std::move(b);
  ChooseSubject(&diff);
  diff.cause = FindCause(diff);
  if (!same_trace) diff.parts = FindPlanParts(diff);
  WriteHeadline(&diff);
  return diff;
}

}  // namespace gpumem

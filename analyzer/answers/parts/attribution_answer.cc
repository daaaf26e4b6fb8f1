// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/attribution_answer.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/parts/attribution_parts.h"
#include "answers/parts/categories.h"
#include "answers/parts/moment_fields.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
#include "ledger/stacks/names.h"
#include "render/cells.h"
#include "render/instants.h"

namespace gpumem {
namespace {

std::string KnownBy(const std::array<uint64_t, kEvidences>& bytes) {
  uint64_t all = 0;
  std::vector<std::string> words;
  for (const uint64_t part : bytes) all += part;
  for (size_t i = 0; i < kEvidences; ++i) {
    if (bytes[i] == 0) continue;
    const absl::string_view name = EvidenceName(static_cast<Evidence>(i));
    words.push_back(bytes[i] == all ? std::string(name) : absl::StrCat(name, " ", ShareCell(bytes[i], all)));
  }
  return absl::StrJoin(words, ", ");
}

// What of a category is distinguished, where that says something: all parameters are trainable in most programs.
void AddParts(const Moment& moment, Category category, std::vector<Page::Row>* rows) {
  if (category == Category::kParameter && moment.parts[Index(Part::kFrozen)] == 0) return;
  for (size_t i = Index(Part::kTrainable); i < kParts; ++i) {
    const auto part = static_cast<Part>(i);
    if (CategoryOf(part) != category || moment.parts[i] == 0) continue;
    rows->push_back({FormatBytes(moment.parts[i]), ShareCell(moment.parts[i], moment.Total()), "",
                     absl::StrCat("  of these ", PartTitle(part)), ""});
  }
}

// Nothing where the program named no stage: the categories say as much.
void AddStagesOf(const Moment& moment, const ReportInput& input, size_t top, Document* answer) {
  std::map<std::string, uint64_t> bytes;
  bool is_named = false;
  for (const AttributedUse& use : moment.uses) {
    bytes[StagePathTitle(input.attribution->user_stages[use.user_stage], use.stage)] += use.bytes;
    is_named |= use.user_stage != 0;
  }
  if (!is_named) return;
  std::vector<std::pair<uint64_t, std::string>> sorted;
  for (const auto& [path, each] : bytes) sorted.emplace_back(each, path);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  answer->Gap();
  answer->Line("By stage in which it was allocated", Tone::kHeading);
  std::vector<Page::Row> rows{{"bytes", ShareTitle(moment.Total()), "stage"}};
  for (size_t i = 0; i < Shown(sorted.size(), top); ++i)
    rows.push_back({FormatBytes(sorted[i].first), ShareCell(sorted[i].first, moment.Total()), sorted[i].second});
  answer->Cells({Align::kRight, Align::kRight, Align::kLeft}, rows);
}

// Stacks without their categories, as lists of stacks want them.
std::vector<StackUse> ToStackUses(const Moment& moment) {
  std::map<std::tuple<uint64_t, uint8_t, uint8_t>, StackUse> merged;
  for (const AttributedUse& use : moment.uses) {
    StackUse& stack = merged[{use.stack_id, use.layer, use.memory}];
    stack.stack_id = use.stack_id;
    stack.layer = use.layer;
    stack.memory = use.memory;
    stack.bytes += use.bytes;
    stack.count += use.count;
  }
  std::vector<StackUse> uses;
  for (const auto& [key, use] : merged) uses.push_back(use);
  std::stable_sort(uses.begin(), uses.end(), [](const StackUse& a, const StackUse& b) { return a.bytes > b.bytes; });
  return uses;
}

}  // namespace

void AddCategories(const Moment& moment, absl::string_view of, const ReportInput& input, Document* answer) {
  // The number that peak and report head this moment with comes first; categories have memory of others too.
  const bool is_of_blocks = input.attribution->measure == Measure::kAllocated && moment.values.allocated > 0;
  const std::string bytes =
      is_of_blocks ? absl::StrCat(FormatBytes(moment.values.allocated), " allocated") : FormatBytes(moment.Total());
  const bool has_more = is_of_blocks && moment.Total() != moment.values.allocated;
  answer->Line({{Tone::kHeading, absl::StrCat("Memory by category at ", of, " of ",
                                              DeviceLabel(input.attribution->device), ": ", bytes)},
                {Tone::kPlain, absl::StrCat(has_more ? absl::StrCat(", ", FormatBytes(moment.Total()), " in all,") : "",
                                            " ", AtPeak(moment.time_ns, input),
                                            moment.step == 0 ? "" : absl::StrCat(", step ", moment.step))}});
  std::vector<Page::Row> rows{{"bytes", ShareTitle(moment.Total()), "blocks", "category", "evidence"}};
  for (const size_t i : CategoriesBySize(moment.categories)) {
    rows.push_back({FormatBytes(moment.categories[i]), ShareCell(moment.categories[i], moment.Total()),
                    moment.counts[i] == 0 ? "" : FormatCount(moment.counts[i]),
                    std::string(CategoryTitle(static_cast<Category>(i))), KnownBy(moment.by_evidence[i])});
    AddParts(moment, static_cast<Category>(i), &rows);
  }
  answer->Cells({Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
  if (!input.attribution->has_tensors) {
    answer->Paragraph(
        "  ",
        "The program's tensors were not observed: parameters, gradients and optimizer state are identified by "
        "stacks only (docs/attribution.md).",
        Tone::kAside);
  }
}

Document MomentAnswer(absl::string_view asked, const ReportInput& input, const TextOptions& options) {
  const Moment& moment = input.attribution->moments.front();
  Document answer = MomentFields(moment, input);
  answer.Field("where", PlaceDatum(moment.time_ns, input), "");
  answer.Gap();
  AddCategories(moment, asked == "peak" ? "the peak" : asked, input, &answer);
  if (const std::string place = PlaceText(input.analysis->marks.At(moment.time_ns)); !place.empty())
    answer.Paragraph("  at      ", place);
  AddComponents(moment, input, &answer);
  AddModules(moment, input, options.top, &answer);
  AddStagesOf(moment, input, options.top, &answer);
  AddNames(moment, input, options.top, &answer);
  AddUses(moment, input, options.top, &answer);
  answer.Heading("By line of your code");
  std::vector<StackUse> uses = ToStackUses(moment);
  if (uses.empty()) {
    answer.Line("  nothing was live");
  } else {
    AddStackRows(std::move(uses), {"it", moment.Total()}, input, options, &answer);
  }
  return answer;
}

Document AtAnswer(absl::string_view asked, const ReportInput& input, const TextOptions& options) {
  Document answer = AttributedAnswer("at", input);
  answer.Field("asked", asked, "the moment as it was asked for");
  answer.Append(MomentAnswer(asked, input, options));
  return answer;
}

void AddSnapshots(const ReportInput& input, Document* answer) {
  const std::vector<const Moment*> snapshots = SnapshotsOf(input.attribution);
  if (snapshots.empty()) return;
  answer->Gap();
  answer->Line({{Tone::kHeading, absl::StrCat("Snapshots on ", DeviceLabel(input.attribution->device))},
                {Tone::kAside, "  moments that the program named; gpumemshim at NAME says all of one"}});
  std::vector<Page::Row> rows{{"at", "allocated", "all", "name", "made of"}};
  for (const Moment* const moment : snapshots) {
    rows.push_back({FormatTime(input.Since(moment->time_ns)), FormatBytes(moment->values.allocated),
                    FormatBytes(moment->Total()), moment->asked, LargestCategories(moment->categories)});
  }
  answer->Cells({Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
  if (const size_t all = CountSnapshots(*input.analysis); all > snapshots.size())
    answer->Line(absl::StrCat("  ", all - snapshots.size(), " others are not shown: gpumemshim at NAME"), Tone::kAside);
}

void AddSnapshotFields(const ReportInput& input, Document* answer) {
  std::vector<Document> snapshots;
  for (const Moment* const moment : SnapshotsOf(input.attribution)) {
    Document& snapshot = snapshots.emplace_back();
    snapshot.Field("name", moment->asked, "");
    snapshot.Append(MomentFields(*moment, input));
  }
  answer->Field("snapshots_left_out", CountSnapshots(*input.analysis) - snapshots.size(), "how many more there are");
  answer->Documents("snapshots",
                    "moments that the program asked for ([python.md](python.md)): `name`, and as in `at` without "
                    "`modules` and `stacks`; the last hundred",
                    std::move(snapshots));
}

}  // namespace gpumem

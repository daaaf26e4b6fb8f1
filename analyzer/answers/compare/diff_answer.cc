// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/diff_answer.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

constexpr char kRows[] = "lists of what differs, largest difference first";

std::string SideText(const RunFacts& facts) {
  std::string text = absl::StrCat(facts.name, ", ", facts.moment);
  if (facts.has_moment) absl::StrAppend(&text, " at ", FormatTime(facts.time_ns));
  if (facts.step != 0) absl::StrAppend(&text, ", step ", facts.step);
  if (!facts.device_name.empty()) absl::StrAppend(&text, ", GPU ", facts.device, " (", facts.device_name, ")");
  return text;
}

Datum SideDatum(const RunFacts& facts) {
  constexpr char kMoment[] = "the file, the moment as asked, and whether it has one";
  constexpr char kThen[] = "at that moment; the context's are the end's";
  constexpr char kRun[] = "of the whole run";
  return Datum::Object(
      {{"trace", facts.name, kMoment},
       {"moment", facts.moment, kMoment},
       {"found", facts.has_moment, kMoment},
       {"time_ns", facts.time_ns, "when it was, from the first event of the trace on"},
       {"step", facts.step, "in which it was; 0 = in none"},
       {"device", facts.device, "the GPU"},
       {"measure", MeasureName(facts.measure), "what lists and causes are of"},
       {"allocated_bytes", facts.values.allocated, kThen},
       {"reserved_bytes", facts.values.reserved, kThen},
       {"other_bytes", facts.values.other, kThen},
       {"total_bytes", facts.values.total, kThen},
       {"context_bytes", facts.context, kThen},
       {"peak_allocated_bytes", facts.peak_allocated, kRun},
       {"peak_reserved_bytes", facts.peak_reserved, kRun},
       {"peak_total_bytes", facts.peak_total, kRun},
       {"peak_bound", PeakBoundName(facts.bound), "of these, as `bound` in [devices](#devices)"},
       {"ended", RunEndingName(facts.ending), "`completed`, `out_of_memory`, `killed`, `running`, `unknown`"},
       {"damaged", facts.is_damaged, "true for a damaged trace"},
       {"lost_events", facts.lost_events, "known to be missing"}});
}

// "32 x 96 MiB", "-" where there is nothing.
std::string BlocksText(uint64_t count, uint64_t smallest, uint64_t largest) {
  if (count == 0) return "-";
  if (smallest == largest) return absl::StrCat(FormatCount(count), " x ", FormatBytes(largest));
  return FormatCountOf(count, "block", "blocks");
}

std::string ChangeWord(const DiffRow& row) {
  return row.change() == RowChange::kNew ? "new" : row.change() == RowChange::kGone ? "gone" : "";
}

// `title` of the last column; blocks: people get how many there are.
std::vector<AnswerColumn<DiffRow>> DiffColumns(const char* title, bool with_blocks) {
  constexpr char kBytes[] = "of A and of B", kCounts[] = "how many blocks";
  return {
      {"delta_bytes", "change", Unit::kGrowth, "B minus A: of the subject; in a list, of the row",
       [](const DiffRow& row) { return row.delta(); }, [](const DiffRow& row) { return SignedBytes(row.delta()); }},
      {"a_bytes", "A", Unit::kAlignedBytes, kBytes, [](const DiffRow& row) { return row.uses.a_bytes; }},
      {"b_bytes", "B", Unit::kAlignedBytes, kBytes, [](const DiffRow& row) { return row.uses.b_bytes; }},
      {"change", kNoTitle, Unit::kText, "`same`, `new`, `gone`, `larger`, `smaller`",
       [](const DiffRow& row) { return RowChangeName(row.change()); }, ChangeWord},
      {"a_count", with_blocks ? "blocks of A" : "", Unit::kCount, kCounts,
       [](const DiffRow& row) { return row.uses.a_count; },
       [](const DiffRow& row) { return BlocksText(row.uses.a_count, row.uses.a_smallest, row.uses.a_largest); }},
      {"b_count", with_blocks ? "blocks of B" : "", Unit::kCount, kCounts,
       [](const DiffRow& row) { return row.uses.b_count; },
       [](const DiffRow& row) { return BlocksText(row.uses.b_count, row.uses.b_smallest, row.uses.b_largest); }},
      {"was", "", Unit::kText, "A's name, if it is another",
       [](const DiffRow& row) { return Datum::If(!row.was.empty(), row.was); }},
      {"name", title, Unit::kText, "B's name", [](const DiffRow& row) { return row.name; },
       [](const DiffRow& row) { return row.was.empty() ? row.name : absl::StrCat(row.name, "  (was ", row.was, ")"); }},
  };
}

// What a list of `diff` is called.
struct DiffList {
  const char* key;
  const char* heading;
  const char* title;  // of its last column
  bool with_blocks;
};

// People get what is not the same, and how much there is of the rest.
void AddShownRows(const DiffList& list, const std::vector<DiffRow>& rows, size_t top, Document* answer) {
  const auto is_equal = [&](const DiffRow& row) {
    return row.change() == RowChange::kSame && row.uses.a_count == row.uses.b_count && list.with_blocks;
  };
  auto differing = std::make_shared<std::vector<DiffRow>>();
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(*differing), std::not_fn(is_equal));
  const size_t all = differing->size(), shown = Shown(all, top);
  int64_t rest = 0;
  for (size_t i = shown; i < all; ++i) rest += (*differing)[i].delta();
  answer->Heading(list.heading);
  answer->Table("", "", DiffColumns(list.title, list.with_blocks),
                std::shared_ptr<const std::vector<DiffRow>>(differing),
                {.count = shown,
                 .is_shown = all != 0,
                 .counts_rest = true,
                 .rest = absl::StrCat(", ", SignedBytes(rest), " in all")});
  if (all < rows.size()) answer->Line(absl::StrCat("  ", FormatCount(rows.size() - all), " equal"), Tone::kAside);
}

void AddDiffRows(const DiffList& list, const std::vector<DiffRow>& rows, size_t top, bool is_shown, Document* answer) {
  answer->Table(list.key, kRows, DiffColumns(list.title, true), rows,
                {.count = Shown(rows.size(), top), .layout = JsonLayout::kOneLine, .is_shown = false});
  if (is_shown) AddShownRows(list, rows, top, answer);
}

void AddSettings(const Diff& diff, Document* answer) {
  constexpr char kBoth[] = "settings: what differs between the runs, and in each of them";
  answer->Table("settings", kBoth,
                std::vector<AnswerColumn<SettingChange>>{
                    {"what", "", Unit::kText, kBoth, [](const SettingChange& change) { return change.what; }},
                    {"a", "", Unit::kText, "", [](const SettingChange& change) { return change.a; }},
                    {"b", "", Unit::kText, "", [](const SettingChange& change) { return change.b; }}},
                diff.settings, {.layout = JsonLayout::kOneLine, .is_shown = false});
  const auto value = [](const std::string& text) { return text.empty() ? std::string("(none)") : text; };
  for (const SettingChange& change : diff.settings)
    answer->Paragraph("changed ", absl::StrCat(change.what, ": ", value(change.a), " -> ", value(change.b)));
}

// Of a run and its plan.
void AddPlanParts(const Diff& diff, Document* answer) {
  if (!diff.parts.empty()) answer->Heading("By part, the run against its plan", "each at its own peak");
  constexpr char kBoth[] = "of the plan and of the run";
  answer->Table<PlanPart>(
      "plan_parts", "where one of the two is a plan: by which parts the run differs from it; else empty",
      {{"delta_bytes", "change", Unit::kGrowth, "the run's minus the plan's",
        [](const PlanPart& part) { return part.delta(); },
        [](const PlanPart& part) { return part.known ? SignedBytes(part.delta()) : std::string("not known"); }},
       {"plan_bytes", "plan", Unit::kAlignedBytes, kBoth, [](const PlanPart& part) { return part.plan; }},
       {"run_bytes", "run", Unit::kAlignedBytes, kBoth, [](const PlanPart& part) { return part.run; }},
       {"known", "", Unit::kText, "false: one of the two traces does not have it",
        [](const PlanPart& part) { return part.known; }},
       {"own", "", Unit::kText, "false: it is other processes' memory",
        [](const PlanPart& part) { return part.is_own; }},
       {"name", "part", Unit::kText, "B's name", [](const PlanPart& part) { return part.name; }},
       {"why", kNoTitle, Unit::kText, "what the traces say of it", [](const PlanPart& part) { return part.why; }}},
      diff.parts, {.layout = JsonLayout::kOneLine, .is_shown = !diff.parts.empty()});
}

void AddRenamedList(const Diff& diff, Document* answer) {
  constexpr char kRenamed[] =
      "what was matched under another name: `kind` (`line`, `function`, `file`, `module`), `was`, `now`";
  answer->Table("renamed", kRenamed,
                std::vector<AnswerColumn<Renamed>>{
                    {"kind", "", Unit::kText, kRenamed, [](const Renamed& each) { return RenamedKindName(each.kind); }},
                    {"was", "", Unit::kText, "", [](const Renamed& each) { return each.was; }},
                    {"now", "", Unit::kText, kRenamed, [](const Renamed& each) { return each.now; }}},
                diff.renamed, {.layout = JsonLayout::kOneLine, .is_shown = false});
}

void AddShownRenamed(const Diff& diff, size_t top, Document* answer) {
  if (diff.renamed.empty()) return;
  answer->Heading("Matched under another name");
  const size_t shown = Shown(diff.renamed.size(), top);
  for (size_t i = 0; i < shown; ++i) {
    const Renamed& each = diff.renamed[i];
    answer->Line(absl::StrCat("  ", RenamedKindName(each.kind), "  ", each.was, " -> ", each.now));
  }
  if (shown < diff.renamed.size())
    answer->Line(absl::StrCat("  ", FormatCount(diff.renamed.size() - shown), " more"), Tone::kAside);
}

void AddFacts(const Diff& diff, Document* answer) {
  answer->Field("schema_version", kJsonSchemaVersion, "");
  answer->Field("command", "diff", "");
  answer->Field("headline", diff.headline, "the sentence, with the doubts before it");
  answer->Field("subject", diff.subject,
                "which series it is about: `allocated`, `reserved`, `outside` (PyTorch), `host` (pinned and managed "
                "memory), `total`");
  answer->Field("delta_bytes", diff.delta, "B minus A: of the subject; in a list, of the row");
  constexpr char kCause[] =
      "`kind` (`none`, `unknown`, `several`, `group`, `layers`, `model_copy`, `dtype`, `frozen`, `optimizer`, "
      "`inputs`, "
      "`recompute`, `accumulation`, `leak`, `allocator`, `outside`), `text`, `explained_bytes`: how much of the "
      "difference it explains";
  answer->Field("cause",
                Datum::Object({{"kind", CauseKindName(diff.cause.kind)},
                               {"text", diff.cause.text, kCause},
                               {"explained_bytes", diff.cause.explained, kCause}},
                              JsonLayout::kOneLine),
                kCause);
  answer->Field("doubts", Datum::List({diff.doubts.begin(), diff.doubts.end()}, JsonLayout::kOneLine),
                "why the answer may be of a part only");
  answer->Field("a", SideDatum(diff.a), "the two moments");
  answer->Field("b", SideDatum(diff.b), "the two moments");
}

}  // namespace

std::string SignedBytes(int64_t bytes) {
  if (bytes == 0) return "=";
  return absl::StrCat(bytes < 0 ? "-" : "+", FormatBytes(static_cast<uint64_t>(std::abs(bytes))));
}

Document DiffAnswer(const Diff& diff, size_t top, bool by_stack) {
  Document answer;
  AddFacts(diff, &answer);
  answer.Paragraph("", diff.headline, diff.doubts.empty() ? Tone::kHeading : Tone::kWarning);
  answer.Gap();
  answer.Paragraph("A  ", SideText(diff.a));
  answer.Paragraph("B  ", SideText(diff.b));
  AddSettings(diff, &answer);
  AddRenamedList(diff, &answer);
  AddPlanParts(diff, &answer);
  AddDiffRows({"totals", "Totals", kNoTitle, false}, diff.series, 0, true, &answer);
  AddDiffRows({"categories", "By category", "category", true}, diff.categories, 0, true, &answer);
  AddDiffRows({"modules", "By module (layers folded)", "module", true}, diff.modules, top, true, &answer);
  AddDiffRows({"lines", "By line", "line", true}, diff.lines, top, true, &answer);
  AddDiffRows({"stacks", "By stack", "line and callers", true}, diff.stacks, top, by_stack, &answer);
  AddShownRenamed(diff, top, &answer);
  return answer;
}

}  // namespace gpumem

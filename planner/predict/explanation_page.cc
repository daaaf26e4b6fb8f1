// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "planner/predict/plan_answer.h"

namespace gpumem::plan {
namespace {

constexpr size_t kMaxWays = 5;

std::string With(const Explanation& explanation) {
  return explanation.room == 0
             ? ""
             : absl::StrCat(", and up to ", FormatBytes(explanation.room), " more, which is open as above");
}

void AddAnswer(const Explanation& explanation, Document* answer) {
  const std::string goal = FormatBytes(explanation.goal);
  if (explanation.reached()) {
    answer->Line({{Tone::kGood, absl::StrCat("  It fits ", goal, " as it is: ", FormatBytes(explanation.need))},
                  {Tone::kPlain, With(explanation)}});
  } else if (explanation.to_fit.has_value()) {
    answer->Paragraph(absl::StrCat("  To fit ", goal, ": "),
                      absl::StrCat(explanation.to_fit->text, ": ", FormatBytes(*explanation.to_fit->need),
                                   With(explanation), ". Cost: ", explanation.to_fit->cost_text, "."),
                      Tone::kGood);
  } else if (explanation.least.has_value()) {
    answer->Paragraph("  Nothing that was tried reaches ",
                      absl::StrCat(goal, ". The least is ", FormatBytes(*explanation.least->need), With(explanation),
                                   ": ", explanation.least->text, ". Cost: ", explanation.least->cost_text, "."),
                      Tone::kWarning);
  } else {
    answer->Paragraph("  Nothing that was tried ", absl::StrCat("saves anything, so ", goal, " is not reached."),
                      Tone::kWarning);
  }
}

// "applied to 1 of 2: SGD has no fused form".
std::string Partly(const Reduction& way) {
  const bool is_partial = way.applied < way.of && !way.why.empty();
  return is_partial ? absl::StrCat("; applied to ", way.applied, " of ", way.of, ": ", way.why) : "";
}

void AddWays(const Explanation& explanation, Document* answer) {
  if (explanation.ways.empty()) return;
  std::vector<Page::Row> rows{{"needs", "saves", "with", "at the cost of"}};
  for (const Reduction& way : explanation.ways) {
    if (rows.size() > kMaxWays) break;
    rows.push_back({FormatBytes(*way.need), FormatBytes(explanation.need - *way.need), way.text,
                    absl::StrCat(way.cost_text, Partly(way))});
  }
  answer->Cells({Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
  std::vector<std::string> more;
  for (size_t i = kMaxWays; i < explanation.ways.size(); ++i)
    more.push_back(absl::StrCat(explanation.ways[i].text, ": ", FormatBytes(*explanation.ways[i].need), " (",
                                explanation.ways[i].cost_text, ")"));
  if (!more.empty()) answer->Paragraph("  Further: ", absl::StrCat(absl::StrJoin(more, "; "), "."));
}

// What hardly changes the need: by how much, for together with others it may save more.
void AddIdle(const Explanation& explanation, Document* answer) {
  std::vector<std::string> texts;
  for (const Reduction& way : explanation.without_use) {
    const uint64_t need = *way.need;
    texts.push_back(absl::StrCat(way.text, " (",
                                 need == explanation.need ? "nothing"
                                 : need < explanation.need
                                     ? FormatBytes(explanation.need - need)
                                     : absl::StrCat("needs ", FormatBytes(need - explanation.need), " more"),
                                 ")"));
  }
  if (!texts.empty())
    answer->Paragraph("  Saves less than 0.5 % by itself: ", absl::StrCat(absl::StrJoin(texts, "; "), "."));
}

// One paragraph a reason.
void AddRefused(const Explanation& explanation, Document* answer) {
  std::vector<std::string> told;
  for (const Reduction& first : explanation.not_possible) {
    if (std::find(told.begin(), told.end(), first.why) != told.end()) continue;
    told.push_back(first.why);
    std::vector<std::string> texts;
    for (const Reduction& way : explanation.not_possible) {
      if (way.why == first.why) texts.push_back(way.text);
    }
    answer->Paragraph("  Not possible: ", absl::StrCat(absl::StrJoin(texts, "; "), ". Why: ", first.why, "."),
                      Tone::kAside);
  }
}

absl::string_view CostName(ReductionCost cost) {
  switch (cost) {
    case ReductionCost::kNothing:
      return "nothing";
    case ReductionCost::kTime:
      return "time";
    case ReductionCost::kRecompute:
      return "recompute";
    case ReductionCost::kPieces:
      return "pieces";
    case ReductionCost::kTransfers:
      return "transfers";
    case ReductionCost::kRounding:
      return "rounding";
  }
  return "";
}

const std::vector<AnswerColumn<Reduction>>& ReductionColumns() {
  using Way = Reduction;
  static const auto* const kColumns = new std::vector<AnswerColumn<Way>>{
      {"changes", "names as in [commands/plan.md](commands/plan.md#explain); `checkpointing:12`: the first 12 blocks",
       [](const Way& way) {
         return Datum::List(std::vector<Datum>(way.changes.begin(), way.changes.end()), JsonLayout::kOneLine);
       }},
      {"text", "in words", &Way::text},
      {"cost", "`nothing`, `time` (unknown), `recompute`, `pieces`, `transfers`, `rounding`",
       [](const Way& way) { return CostName(way.cost); }},
      {"cost_text", "in words", &Way::cost_text},
      {"other_results", "why the program computes other numbers with it; \"\" = the same", &Way::other_results},
      {"applied", "to how many places", &Way::applied},
      {"of", "how many places there are", &Way::of},
      {"why", "not to all of them, or not at all", &Way::why},
      {"need_bytes", "of the program as it is; of a change, of the run with it: null = not possible", &Way::need}};
  return *kColumns;
}

Datum ReductionDatum(const std::optional<Reduction>& way) {
  return way.has_value() ? ObjectOf(ReductionColumns(), *way, JsonLayout::kLines) : Datum();
}

// For machines alone.
Document ExplanationFields(const Explanation& explanation) {
  Document fields;
  fields.Field("goal_bytes", explanation.goal, "what the device may give");
  fields.Field("need_bytes", explanation.need, "");
  fields.Field("open_bytes", explanation.room, "what is open may add so much to each need");
  fields.Field("reached", explanation.reached(), "it fits as it is");
  fields.Field("to_fit", ReductionDatum(explanation.to_fit),
               "the cheapest changes that reach the goal; null = it is reached, or nothing reaches it");
  fields.Field("least", ReductionDatum(explanation.least),
               "where nothing reaches it: all that apply together, or null");
  fields.Table("ways", "each change alone, the cheapest first", ReductionColumns(), explanation.ways, {});
  fields.Table("without_use", "changes that were applied, and save less than 0.5 %", ReductionColumns(),
               explanation.without_use, {});
  fields.Table("not_possible", "changes that could not be tried", ReductionColumns(), explanation.not_possible, {});
  fields.Field("runs", explanation.runs, "");
  fields.Field("max_runs", explanation.max_runs, "the most that there may be");
  return fields;
}

}  // namespace

void AddExplanation(const Forecast& forecast, Document* answer) {
  if (!forecast.explanation.has_value()) return;
  const Explanation& explanation = *forecast.explanation;
  Document explain = ExplanationFields(explanation);
  explain.Heading("How to need less", absl::StrCat("nvidia-smi's number of ",
                                                   FormatCountOf(explanation.runs, "further run", "further runs"),
                                                   ", each with the change; cheapest first"));
  AddAnswer(explanation, &explain);
  AddWays(explanation, &explain);
  AddIdle(explanation, &explain);
  AddRefused(explanation, &explain);
  answer->Object("explain", "with `--explain`", std::move(explain));
}

}  // namespace gpumem::plan

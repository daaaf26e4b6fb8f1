// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/explanation_page.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"

namespace gpumem::plan {
namespace {

constexpr size_t kMaxWays = 5;

std::string With(const Explanation& explanation) {
  return explanation.room == 0
             ? ""
             : absl::StrCat(", and up to ", FormatBytes(explanation.room), " more, which is open as above");
}

void AddAnswer(const Explanation& explanation, Page* page) {
  const std::string goal = FormatBytes(explanation.goal);
  if (explanation.reached()) {
    page->Line({{Tone::kGood, absl::StrCat("  It fits ", goal, " as it is: ", FormatBytes(explanation.need))},
                {Tone::kPlain, With(explanation)}});
  } else if (explanation.to_fit.has_value()) {
    page->Paragraph(absl::StrCat("  To fit ", goal, ": "),
                    absl::StrCat(explanation.to_fit->text, ": ", FormatBytes(*explanation.to_fit->need),
                                 With(explanation), ". Cost: ", explanation.to_fit->cost_text, "."),
                    Tone::kGood);
  } else if (explanation.least.has_value()) {
    page->Paragraph("  Nothing that was tried reaches ",
                    absl::StrCat(goal, ". The least is ", FormatBytes(*explanation.least->need), With(explanation),
                                 ": ", explanation.least->text, ". Cost: ", explanation.least->cost_text, "."),
                    Tone::kWarning);
  } else {
    page->Paragraph("  Nothing that was tried ", absl::StrCat("saves anything, so ", goal, " is not reached."),
                    Tone::kWarning);
  }
}

// "applied to 1 of 2: SGD has no fused form".
std::string Partly(const Reduction& way) {
  const bool is_partial = way.applied < way.of && !way.why.empty();
  return is_partial ? absl::StrCat("; applied to ", way.applied, " of ", way.of, ": ", way.why) : "";
}

void AddWays(const Explanation& explanation, Page* page) {
  if (explanation.ways.empty()) return;
  std::vector<Page::Row> rows{{"needs", "saves", "with", "at the cost of"}};
  for (const Reduction& way : explanation.ways) {
    if (rows.size() > kMaxWays) break;
    rows.push_back({FormatBytes(*way.need), FormatBytes(explanation.need - *way.need), way.text,
                    absl::StrCat(way.cost_text, Partly(way))});
  }
  page->Table({Align::kRight, Align::kRight, Align::kLeft, Align::kLeft}, rows);
  std::vector<std::string> more;
  for (size_t i = kMaxWays; i < explanation.ways.size(); ++i)
    more.push_back(absl::StrCat(explanation.ways[i].text, ": ", FormatBytes(*explanation.ways[i].need), " (",
                                explanation.ways[i].cost_text, ")"));
  if (!more.empty()) page->Paragraph("  Further: ", absl::StrCat(absl::StrJoin(more, "; "), "."));
}

// What hardly changes the need: by how much, for together with others it may save more.
void AddIdle(const Explanation& explanation, Page* page) {
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
    page->Paragraph("  Saves less than 0.5 % by itself: ", absl::StrCat(absl::StrJoin(texts, "; "), "."));
}

// One paragraph a reason.
void AddRefused(const Explanation& explanation, Page* page) {
  std::vector<std::string> told;
  for (const Reduction& first : explanation.not_possible) {
    if (std::find(told.begin(), told.end(), first.why) != told.end()) continue;
    told.push_back(first.why);
    std::vector<std::string> texts;
    for (const Reduction& way : explanation.not_possible) {
      if (way.why == first.why) texts.push_back(way.text);
    }
    page->Paragraph("  Not possible: ", absl::StrCat(absl::StrJoin(texts, "; "), ". Why: ", first.why, "."),
                    Tone::kAside);
  }
}

}  // namespace

void AddExplanation(const Forecast& forecast, Page* page) {
  if (!forecast.explanation.has_value()) return;
  const Explanation& explanation = *forecast.explanation;
  page->Gap();
  page->Line({{Tone::kHeading, "How to need less"},
              {Tone::kAside,
               absl::StrCat("  nvidia-smi's number of ", FormatCountOf(explanation.runs, "further run", "further runs"),
                            ", each with the change; cheapest first")}});
  AddAnswer(explanation, page);
  AddWays(explanation, page);
  AddIdle(explanation, page);
  AddRefused(explanation, page);
}

namespace {

void WriteReduction(const Reduction& reduction, JsonWriter* json) {
  json->BeginObject();
  json->Key("changes");
  json->BeginArray(JsonLayout::kOneLine);
  for (const std::string& change : reduction.changes) json->Value(change);
  json->EndArray();
  json->Field("text", reduction.text);
  json->Field("cost", CostName(reduction.cost));
  json->Field("cost_text", reduction.cost_text);
  json->Field("other_results", reduction.other_results);
  json->Field("applied", reduction.applied);
  json->Field("of", reduction.of);
  json->Field("why", reduction.why);
  json->Key("need_bytes");
  reduction.need.has_value() ? json->Value(*reduction.need) : json->Null();
  json->EndObject();
}

void WriteAll(absl::string_view key, const std::vector<Reduction>& reductions, JsonWriter* json) {
  json->Key(key);
  json->BeginArray();
  for (const Reduction& reduction : reductions) WriteReduction(reduction, json);
  json->EndArray();
}

void WriteOne(absl::string_view key, const std::optional<Reduction>& reduction, JsonWriter* json) {
  json->Key(key);
  reduction.has_value() ? WriteReduction(*reduction, json) : json->Null();
}

}  // namespace

absl::string_view CostName(ReductionCost cost) {
  switch (cost) {
    case ReductionCost::kNothing:
      return "nothing";
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

void WriteExplanation(const Forecast& forecast, JsonWriter* json) {
  if (!forecast.explanation.has_value()) return;
  const Explanation& explanation = *forecast.explanation;
  json->Key("explain");
  json->BeginObject();
  json->Field("goal_bytes", explanation.goal);
  json->Field("need_bytes", explanation.need);
  json->Field("open_bytes", explanation.room);
  json->Field("reached", explanation.reached());
  WriteOne("to_fit", explanation.to_fit, json);
  WriteOne("least", explanation.least, json);
  WriteAll("ways", explanation.ways, json);
  WriteAll("without_use", explanation.without_use, json);
  WriteAll("not_possible", explanation.not_possible, json);
  json->Field("runs", explanation.runs);
  json->Field("max_runs", explanation.max_runs);
  json->EndObject();
}

}  // namespace gpumem::plan

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/forecast/explanation_page.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"

namespace gpumem {
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
                                 ": ", explanation.least->text, "."),
                    Tone::kWarning);
  } else {
    page->Paragraph("  Nothing that was tried ", absl::StrCat("applies, so ", goal, " is not reached."),
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

}  // namespace

void AddExplanation(const Forecast& forecast, Page* page) {
  if (!forecast.explanation.has_value()) return;
  const Explanation& explanation = *forecast.explanation;
  page->Gap();
  page->Line({{Tone::kHeading, "How to need less"},
              {Tone::kAside, absl::StrCat("  nvidia-smi's number of ", FormatCountOf(explanation.runs, "further run", "further runs"),
                                          ", each with the change; cheapest first")}});
  AddAnswer(explanation, page);
  AddWays(explanation, page);
  std::vector<std::string> idle;
  for (const Reduction& way : explanation.without_use) idle.push_back(way.text);
  if (!idle.empty()) page->Paragraph("  Saves nothing by itself: ", absl::StrCat(absl::StrJoin(idle, "; "), "."));
  for (const Reduction& way : explanation.not_possible)
    page->Paragraph("  Not possible: ", absl::StrCat(way.text, ": ", way.why, "."), Tone::kAside);
}

}  // namespace gpumem

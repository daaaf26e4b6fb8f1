// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "answers/report/cupti_words.h"
#include "answers/report/sections.h"
#include "answers/report/state.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

constexpr int kLeadWidth = 8;

// Names of devices and versions are cut where they are too long, sentences are broken.
void AddFact(const Remark& fact, Document* answer) {
  const std::string lead = absl::StrCat("  ", PadRight(fact.lead, kLeadWidth));
  if (fact.lead.empty()) {
    answer->Line(absl::StrCat("  ", fact.text));
  } else if (fact.lead == "with" || absl::StartsWith(fact.lead, "GPU")) {
    answer->Line(absl::StrCat(lead, fact.text));
  } else {
    answer->Paragraph(absl::StrCat(lead, fact.lead.size() < kLeadWidth ? "" : " "), fact.text, fact.tone);
  }
}

}  // namespace

void AddHead(const ReportInput& input, Detail detail, Document* answer) {
  const std::string& program = input.analysis->process.program;
  answer->Line({{Tone::kHeading, program.empty() ? "(program not known)" : program},
                {Tone::kPlain, absl::StrCat("  ", ProcessText(input))}});
  for (const Remark& fact : HeadFacts(input, detail == Detail::kFull)) AddFact(fact, answer);
  for (const Remark& remark : StateRemarks(input))
    answer->Paragraph(absl::StrCat("  ", PadRight(remark.lead, kLeadWidth)), remark.text, remark.tone);
  for (const Remark& remark : CuptiRemarks(input)) AddFact(remark, answer);
  AddLimits(input, answer);
}

}  // namespace gpumem

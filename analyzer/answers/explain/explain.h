// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The checklists walked on a trace, as text and as JSON. Text shows what was found, largest saving first, and counts
// the rest; `full` shows every check. Pure functions of what is given.
//
//   const Explanation explanation = Explain(subject, {CheckTopic::kOom});
//   explanation.headline;  // "out of memory: 2 of 7 checks found something; most: ..."
//   AddExplanation(explanation, /*full=*/false, &page);

#ifndef GPUMEM_ANALYZER_ANSWERS_EXPLAIN_EXPLAIN_H_
#define GPUMEM_ANALYZER_ANSWERS_EXPLAIN_EXPLAIN_H_

#include <string>
#include <vector>

#include "answers/explain/check.h"
#include "answers/explain/checks.h"
#include "answers/report/verdict.h"
#include "render/page.h"

namespace gpumem {

struct Explanation {
  VerdictKind kind = VerdictKind::kNothing;
  std::string verdict;        // of the whole trace, as gpumemshim report has it: "nothing: this program left ... free"
  std::string headline;       // one sentence
  int device = -1;            // -1: no GPU memory
  std::vector<Check> checks;  // by topic, in the order of their list

  size_t Count(CheckOutcome outcome) const;
};

// `topics` empty: all four.
Explanation Explain(const ExplainSubject& subject, const std::vector<CheckTopic>& topics);

void AddExplanation(const Explanation& explanation, bool full, Page* page);

// One object with a final newline (docs/json.md).
std::string ExplanationJson(const Explanation& explanation, const ReportInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_EXPLAIN_EXPLAIN_H_

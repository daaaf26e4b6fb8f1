// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The checklists walked on a trace. People get what was found, largest saving first, and how many checks found nothing;
// with `full` every check. Pure functions; `explanation` outlives the answer.
//
//   const Explanation explanation = Explain(subject, {CheckTopic::kOom});
//   explanation.headline;  // "out of memory: 2 of 7 checks found something; most: ..."
//   answer.Append(ExplanationAnswer(explanation, /*full=*/false));

#ifndef GPUMEM_ANALYZER_ANSWERS_EXPLAIN_EXPLAIN_H_
#define GPUMEM_ANALYZER_ANSWERS_EXPLAIN_EXPLAIN_H_

#include <string>
#include <vector>

#include "answers/explain/check.h"
#include "answers/explain/checks.h"
#include "answers/report/verdict.h"
#include "render/document.h"

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

Document ExplanationAnswer(const Explanation& explanation, bool full);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_EXPLAIN_EXPLAIN_H_

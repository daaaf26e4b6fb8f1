// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a cross-check gave, for people and for machines (docs/commands/doctor.md, docs/json.md).
//
// Thread-safety: pure.

#ifndef GPUMEM_ANALYZER_CROSSCHECK_SHOW_H_
#define GPUMEM_ANALYZER_CROSSCHECK_SHOW_H_

#include <string>
#include <vector>

#include "base/json_writer.h"
#include "crosscheck/join.h"
#include "report/page.h"

namespace gpumem {

struct CrossChecked {
  CrossEvidence evidence;
  CrossCheck check;
};

// How far CUPTI recorded this process, in a sentence: "CUPTI recorded to the end (CUPTI 130000, /usr/...)".
std::string CuptiSentence(const CrossEvidence& evidence);

// The table over all processes, then a line on each process whose CUPTI did not record all of it.
void AddCrossCheck(const std::vector<CrossChecked>& processes, Page* page);

// "cross_check": {...}
void WriteJsonCrossCheck(const std::vector<CrossChecked>& processes, JsonWriter* json);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CROSSCHECK_SHOW_H_

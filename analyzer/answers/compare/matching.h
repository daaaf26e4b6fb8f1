// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// MatchNames: gives a run's memory the names that the same code and the same modules have in another run: a line that
// moved, a function, a file or a module that was renamed. Lines are matched inside a function, in their order, by what
// they call; other names only where nothing else comes into question. Changes `a` in place; not thread-safe; never
// fails: what has no counterpart keeps its name.
//
//   for (const Renamed& each : MatchNames(&a, b)) each.was, each.now

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_MATCHING_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_MATCHING_H_

#include <string>
#include <vector>

#include "answers/compare/run_facts.h"

namespace gpumem {

struct Renamed {
  enum class Kind : uint8_t { kLine, kFunction, kFile, kModule } kind = Kind::kLine;
  std::string was, now;
};
absl::string_view RenamedKindName(Renamed::Kind kind);  // "line"

// By kind, then by name.
std::vector<Renamed> MatchNames(RunFacts* a, const RunFacts& b);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_MATCHING_H_

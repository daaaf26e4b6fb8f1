// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Suppressions: growth that is known and meant to be, from a file as LeakSanitizer has it: one pattern a line, "*" for
// anything; "#" begins a comment. A pattern hides a row where it matches the name of a function or a file of one of its
// frames, or a part of one.
//
//   # the metrics keep one value a step
//   leak:metrics.py
//   leak:Accumulator.update
//
// Immutable after it was read; thread-safe.

#ifndef GPUMEM_ANALYZER_LEDGER_LEAKS_SUPPRESSIONS_H_
#define GPUMEM_ANALYZER_LEDGER_LEAKS_SUPPRESSIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

class Suppressions {
 public:
  // InvalidArgument, with the number of the line, where one is no "leak:PATTERN".
  static absl::StatusOr<Suppressions> Parse(absl::string_view text);

  bool Matches(const std::vector<std::string>& names) const;

 private:
  std::vector<std::string> patterns_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LEAKS_SUPPRESSIONS_H_

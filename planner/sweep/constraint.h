// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Constraint: a condition on the axes of a sweep, like "max_physical_batch_size <= batch_size". Comparisons (< <= > >=
// == !=) of sums and products of names and numbers, joined by `and`, `or` and `not`; text in quotes compares with ==
// and
// != alone. A chain a <= b <= c holds where both parts do.
//
//   absl::StatusOr<Constraint> constraint = Constraint::Parse("batch * seq_len <= 65536");
//   absl::StatusOr<bool> holds = constraint->Holds({{"batch", "8"}, {"seq_len", "1024"}});
//
// Thread-safety: immutable. Failure: InvalidArgument, with what is wrong and where.

#ifndef GPUMEM_PLANNER_SWEEP_CONSTRAINT_H_
#define GPUMEM_PLANNER_SWEEP_CONSTRAINT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/sweep/row.h"

namespace gpumem::plan {

class Constraint {
 public:
  static absl::StatusOr<Constraint> Parse(absl::string_view text);

  // Fails where a name is not an axis, a value is not a number where one is needed, or something is divided by zero.
  absl::StatusOr<bool> Holds(const Configuration& values) const;

  const std::string& text() const { return text_; }

 private:
  struct Token {
    enum class Kind { kNumber, kText, kName, kSign, kEnd };
    Kind kind = Kind::kEnd;
    std::string text;
    size_t at = 0;  // in the constraint
  };
  class Evaluation;

  static absl::StatusOr<std::vector<Token>> Split(absl::string_view text);

  std::string text_;
  std::vector<Token> tokens_;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_CONSTRAINT_H_

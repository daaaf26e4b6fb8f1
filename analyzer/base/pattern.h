// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Pattern: a regular expression (POSIX extended, as `grep -E` takes it) that is searched for in names. Safe with
// hostile names: the C library's matcher does not recurse, and of a name only the first 4,096 bytes are looked at. Not
// thread-safe; movable.
//
//   GPUMEM_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile("^at::|linear"));
//   if (pattern.Matches(function)) ...

#ifndef GPUMEM_ANALYZER_BASE_PATTERN_H_
#define GPUMEM_ANALYZER_BASE_PATTERN_H_

#include <regex.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

class Pattern {
 public:
  // Matches everything.
  Pattern() = default;
  // InvalidArgument, with the C library's reason, where `text` is not a regular expression. "" matches everything.
  static absl::StatusOr<Pattern> Compile(const std::string& text);

  bool Matches(absl::string_view name) const;
  // Whether there is anything to match.
  bool is_set() const { return regex_ != nullptr; }

 private:
  struct Free {
    void operator()(regex_t* regex) const {
      regfree(regex);
      delete regex;
    }
  };
  std::unique_ptr<regex_t, Free> regex_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_PATTERN_H_

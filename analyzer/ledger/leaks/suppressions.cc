// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/suppressions.h"

#include <fnmatch.h>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gpumem {

absl::StatusOr<Suppressions> Suppressions::Parse(absl::string_view text) {
  Suppressions parsed;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    if (!absl::ConsumePrefix(&line, "leak:") || absl::StripAsciiWhitespace(line).empty())
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": expected leak:PATTERN"));
    parsed.patterns_.push_back(absl::StrCat("*", absl::StripAsciiWhitespace(line), "*"));
  }
  return parsed;
}

bool Suppressions::Matches(const std::vector<std::string>& names) const {
  for (const std::string& pattern : patterns_) {
    for (const std::string& name : names) {
      if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return true;
    }
  }
  return false;
}

}  // namespace gpumem

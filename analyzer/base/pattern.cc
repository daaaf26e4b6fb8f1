// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/pattern.h"

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

constexpr size_t kMaxBytes = 4096;

}  // namespace

absl::StatusOr<Pattern> Pattern::Compile(const std::string& text) {
  Pattern pattern;
  if (text.empty()) return pattern;
  auto regex = std::make_unique<regex_t>();
  if (const int error = regcomp(regex.get(), text.c_str(), REG_EXTENDED | REG_NOSUB); error != 0) {
    char reason[256] = "";
    regerror(error, regex.get(), reason, sizeof reason);
    return absl::InvalidArgumentError(absl::StrCat(text, " is not a regular expression: ", reason));
  }
  pattern.regex_.reset(regex.release());
  return pattern;
}

bool Pattern::Matches(absl::string_view name) const {
  if (regex_ == nullptr) return true;
  const std::string text(name.substr(0, kMaxBytes));
  return regexec(regex_.get(), text.c_str(), 0, nullptr, 0) == 0;
}

}  // namespace gpumem

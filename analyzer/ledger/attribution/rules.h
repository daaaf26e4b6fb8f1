// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Rules: what only names can tell: which component of a model a module is (attention, mlp, ...), and what memory is for
// by the functions that asked for it. A text of one rule a line; the first that matches counts:
//
//   component attention class Attention$           of a module: its class, or its name inside the model
//   component lora name (^|\.)lora_
//   category workspace function CUDABlasWorkspace  of a stack: any frame's function, or its file or library
//
// Blank lines and those that begin with # are none. Regular expressions are base/pattern.h's. A user's rules stand
// before the built-in ones. Movable; lookups are for callers that remember the answers.

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_RULES_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_RULES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/pattern.h"
#include "ledger/attribution/category.h"
#include "symbols/symbolizer.h"

namespace gpumem {

class Rules {
 public:
  Rules();  // with the built-in rules

  // InvalidArgument names the line that is not a rule; nothing is added then.
  absl::Status AddBefore(absl::string_view text);

  // "other" where no rule matches.
  const std::string& ComponentOf(absl::string_view class_name, absl::string_view name) const;
  std::optional<Category> CategoryOf(const ResolvedFrame& frame) const;

  // What `gpumemshim modules --print-rules` prints.
  static absl::string_view BuiltIn();

 private:
  struct Rule {
    bool by_place = false;  // the second subject: a module's name, a frame's file
    std::string component;
    Category category = Category::kUnknown;
    Pattern pattern;
  };
  struct Lists {
    std::vector<Rule> components, categories;
  };
  static absl::Status ParseLine(absl::string_view line, Lists* lists);

  Lists lists_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_RULES_H_

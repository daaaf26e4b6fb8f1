// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A stack as a reader wants it: the line of the own code that allocated, through what it allocated, and who called it.
//
//   site     train.py:42 Block.forward                     the innermost frame of the user's own code
//   through  aten::linear in torch/nn/modules/linear.py:134 Linear.forward
//   callers  train.py:88 GPT.forward, train.py:130 main    the user's frames further out
//
// Where a library runs the show (a trainer that was given a model), the site is that library's innermost line. What a
// library keeps for itself ("cuBLAS workspace") is no line's: whoever came first asked for it. Where no
// frame is the user's, the site is the next telling thing: an installed package's line, an autograd node, a
// native function. All text is escaped for a terminal. Pure functions.

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_STACK_VIEW_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_STACK_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "symbols/symbolizer.h"

namespace gpumem {

struct StackView {
  std::string site;
  std::string through;               // "" where there is nothing to add
  std::vector<std::string> callers;  // innermost first, none twice in a row
  bool is_workspace = false;         // of a library: the site is its name, and there are no callers
};

// `api` names the recorded function; it stands in where there are no frames.
StackView ViewStack(const std::vector<ResolvedFrame>& frames, absl::string_view api,
                    absl::string_view working_directory);

// Which native frames are listed beside the Python ones: those that say something (IsTelling), all, or none.
enum class NativeFrames : uint8_t { kTelling, kFull, kNone };

// The stack as a list, one text a frame, innermost first. Never empty for a stack that is not: where nothing is chosen,
// everything is.
std::vector<std::string> ListFrames(const std::vector<ResolvedFrame>& frames, NativeFrames native,
                                    absl::string_view working_directory);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_STACK_VIEW_H_

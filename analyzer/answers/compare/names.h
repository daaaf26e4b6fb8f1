// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Names of modules and places so that two runs can be held against each other. Pure functions, thread-safe; what has
// another form comes back as it is.
//
//   FoldNumbers("model.layers.12.mlp")               // "model.layers.*.mlp"
//   WithoutWrappers("_orig_mod.module.layers.0")     // "layers.0"
//   ParsePlace("train.py:42 Block.forward").line     // 42

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_NAMES_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "answers/compare/run_facts.h"

namespace gpumem {

// "file:line function", as reports write places; all of the text is the function where it is not a place.
CodePlace ParsePlace(const std::string& text);

// Without the ":134" of lines.
std::string WithoutLines(const std::string& text);

// Without the parts that torch.compile, DDP, FSDP and checkpoint wrappers add to names.
std::string WithoutWrappers(absl::string_view fqn);

// Parts that are numbers become "*".
std::string FoldNumbers(absl::string_view fqn);

// "layers.*", "layers.*.mlp" of "layers.*.mlp": all prefixes of whole parts, shortest first.
std::vector<std::string> Prefixes(const std::string& folded);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_NAMES_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which names of people, projects and hosts a command line and an environment have: a Masker takes them out of all
// texts from then on. Names of options and variables tell ("--rdzv", "JOB_NAME"), and what looks like an address of a
// machine ("gpu17:29400", "me@gpu17:job.git").
//
//   LearnFromCommand({"torchrun", "--rdzv", "gpu17:29400", "--run-name", "zephyr", "train.py"}, &masker);
//   masker.Text("zephyr on gpu17");   // "*** on ***"
//
// Pure but for the masker. Failure: learns too much rather than too little; a name that is an everyday word is not
// learned (masker.h).

#ifndef GPUMEM_ANALYZER_CLI_BUNDLE_PRIVATE_NAMES_H_
#define GPUMEM_ANALYZER_CLI_BUNDLE_PRIVATE_NAMES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/bundle/masker.h"

namespace gpumem {

void LearnFromCommand(const std::vector<std::string>& words, Masker* masker);

void LearnFromVariable(absl::string_view name, absl::string_view value, Masker* masker);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_BUNDLE_PRIVATE_NAMES_H_

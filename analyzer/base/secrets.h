// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A command line as it may be written down: what follows --token, --password, api_key= and the like is "***". The
// recorder does the same with what it writes into traces. Pure function.
//
//   WithoutSecrets({"train.py", "--hf-token", "hf_x"})   // {"train.py", "--hf-token", "***"}

#ifndef GPUMEM_ANALYZER_BASE_SECRETS_H_
#define GPUMEM_ANALYZER_BASE_SECRETS_H_

#include <string>
#include <vector>

namespace gpumem {

std::vector<std::string> WithoutSecrets(std::vector<std::string> words);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_SECRETS_H_

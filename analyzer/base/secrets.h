// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Command lines and variables as they may be shown and written down: secrets are "***", by the rules that the recorder
// masks with (shared/mask_secrets.h; docs/secrets.md). Pure functions. What is masked already stays as it is, so traces
// of older recorders, whose rules knew less, are masked again when they are read.
//
//   WithoutSecrets({"train.py", "--hf-token", "hf_x"})   // {"train.py", "--hf-token", "***"}
//   WithoutSecrets("HF_TOKEN", "hf_x")                   // "***"
//   WithoutSecretsIn("key = 'x'  # of the store")        // "key = '***'  # of the store"

#ifndef GPUMEM_ANALYZER_BASE_SECRETS_H_
#define GPUMEM_ANALYZER_BASE_SECRETS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

std::vector<std::string> WithoutSecrets(std::vector<std::string> words);

// Any text, as a line of source code.
std::string WithoutSecretsIn(absl::string_view text);

// The value of one variable, axis or setting.
std::string WithoutSecrets(const std::string& name, const std::string& value);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_SECRETS_H_

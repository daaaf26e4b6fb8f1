// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/secrets.h"

#include "shared/mask_secrets.h"
#include "shared/secret_text.h"

namespace gpumem {

std::vector<std::string> WithoutSecrets(std::vector<std::string> words) {
  format::SecretMasker masker;
  std::string masked;
  for (std::string& word : words) {
    masked.resize(format::MaskedCapacity(word.size()));
    masked.resize(masker.Mask(word.data(), word.size(), masked.data(), masked.size()));
    word = masked;
  }
  return words;
}

std::string WithoutSecretsIn(absl::string_view text) {
  std::string masked(format::MaskedCapacity(text.size()), '\0');
  format::MaskedText out(masked.data(), masked.size());
  format::MaskText({text.data(), text.size()}, {}, &out);
  masked.resize(out.size());
  return masked;
}

std::string WithoutSecrets(const std::string& name, const std::string& value) {
  std::string masked(format::MaskedCapacity(value.size()), '\0');
  masked.resize(format::MaskVariable(name.c_str(), value.c_str(), masked.data(), masked.size()));
  return masked;
}

}  // namespace gpumem

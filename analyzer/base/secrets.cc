// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/secrets.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpumem {

std::vector<std::string> WithoutSecrets(std::vector<std::string> words) {
  const auto is_secret = [](std::string name) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const char* part : {"token", "secret", "password", "passwd", "api_key", "api-key", "apikey"}) {
      if (absl::StrContains(name, part))
        return !absl::StrContains(name, "tokenizer") && !absl::StrContains(name, "tokens");
    }
    return false;
  };
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const bool is_name = absl::StartsWith(words[i], "-") || equals != std::string::npos;
    if (!is_name || !is_secret(words[i].substr(0, equals))) continue;
    if (equals != std::string::npos) {
      words[i] = absl::StrCat(words[i].substr(0, equals + 1), "***");
    } else if (i + 1 < words.size()) {
      words[++i] = "***";
    }
  }
  return words;
}

}  // namespace gpumem

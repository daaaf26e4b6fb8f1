// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/mask_secrets.h"

#include <strings.h>

#include <cstring>

#include "shim/control/text.h"

namespace gpumemshim::control {
namespace {

constexpr const char* kMask = "***";
constexpr const char* kSecretWords[] = {"token",  "secret", "password",    "passwd",     "passphrase", "pwd",
                                        "apikey", "auth",   "credentials", "credential", "authtoken"};
// Beginnings of values that services hand out as credentials.
constexpr const char* kSecretValues[] = {"hf_",    "sk-",   "ghp_",  "gho_", "github_pat_",
                                         "glpat-", "xoxb-", "xoxp-", "AKIA", "eyJ"};

bool IsWordEnd(char c) { return c == '-' || c == '_' || c == '.' || c == '/' || c == ':'; }

bool IsSecretWord(const char* word, size_t size, bool is_last) {
  for (const char* secret : kSecretWords) {
    if (std::strlen(secret) == size && strncasecmp(word, secret, size) == 0) return true;
  }
  return is_last && size == 3 && strncasecmp(word, "key", 3) == 0;
}

bool IsSecretValue(const char* value) {
  for (const char* prefix : kSecretValues) {
    const size_t size = std::strlen(prefix);
    if (std::strncmp(value, prefix, size) == 0 && std::strlen(value) >= size + 16) return true;
  }
  return false;
}

// scheme://user:password@host -> scheme://***@host
bool MaskUrl(const char* argument, Text& out) {
  const char* scheme_end = std::strstr(argument, "://");
  if (scheme_end == nullptr) return false;
  const char* authority = scheme_end + 3;
  const size_t authority_size = std::strcspn(authority, "/?#");
  const auto* at = static_cast<const char*>(memrchr(authority, '@', authority_size));
  if (at == nullptr) return false;
  out.Add(argument, static_cast<size_t>(authority - argument)).Add(kMask).Add(at);
  return true;
}

}  // namespace

bool IsSecretName(const char* name, size_t size) {
  size_t start = 0;
  for (size_t i = 0; i <= size; ++i) {
    if (i < size && !IsWordEnd(name[i])) continue;
    if (IsSecretWord(name + start, i - start, i == size)) return true;
    start = i + 1;
  }
  return false;
}

bool MaskArgument(const char* argument, bool follows_secret_option, char* out, size_t capacity) {
  Text text(out, capacity);
  const bool is_option = argument[0] == '-';
  if (follows_secret_option && !is_option) {
    text.Add(kMask);
    return false;
  }
  const char* equals = std::strchr(argument, '=');
  const size_t name_size = equals == nullptr ? std::strlen(argument) : static_cast<size_t>(equals - argument);
  if (equals != nullptr && (IsSecretName(argument, name_size) || IsSecretValue(equals + 1))) {
    text.Add(argument, name_size + 1).Add(kMask);
  } else if (IsSecretValue(argument)) {
    text.Add(kMask);
  } else if (!MaskUrl(argument, text)) {
    text.Add(argument);
  }
  return is_option && equals == nullptr && IsSecretName(argument, name_size);
}

}  // namespace gpumemshim::control

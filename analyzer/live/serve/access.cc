// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/serve/access.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/output_file.h"

namespace gpumem {
namespace {

constexpr size_t kTokenBytes = 16;
constexpr size_t kLeastLength = 16, kMostLength = 256;

bool IsFit(absl::string_view token) {
  const auto fits = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  return token.size() >= kLeastLength && token.size() <= kMostLength && std::all_of(token.begin(), token.end(), fits);
}

absl::StatusOr<std::string> WriteNewToken(const std::string& path) {
  const std::string token = NewToken();
  const absl::Status written =
      WriteOutput(path, token + "\n", {.keeps = true, .hint = "Name another file with --token-file"});
  if (!written.ok()) return absl::InvalidArgumentError(written.message());
  return token;
}

}  // namespace

std::string NewToken() {
  char bytes[kTokenBytes];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) abort();  // so few come at once
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

absl::StatusOr<std::string> TokenOfFile(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) return WriteNewToken(path);
  std::ifstream file(path);
  std::string token;
  std::getline(file, token);
  token = std::string(absl::StripAsciiWhitespace(token));
  if (IsFit(token)) return token;
  return absl::InvalidArgumentError(absl::StrCat("--token-file ", path,
                                                 " has no token: its first line must have 16 to 256 letters, digits, "
                                                 "'-', '_' or '.'. Where the file is absent one is made."));
}

bool IsToken(absl::string_view token, absl::string_view asked) {
  if (token.size() != asked.size()) return false;
  unsigned char differs = 0;
  for (size_t i = 0; i < token.size(); ++i) differs |= static_cast<unsigned char>(token[i] ^ asked[i]);
  return differs == 0;
}

bool IsLocalHost(absl::string_view host) {
  for (const absl::string_view name : {"127.0.0.1", "localhost", "[::1]"}) {
    if (host.substr(0, name.size()) != name) continue;
    const absl::string_view rest = host.substr(name.size());
    if (rest.empty()) return true;
    return rest[0] == ':' && rest.size() > 1 && std::all_of(rest.begin() + 1, rest.end(), absl::ascii_isdigit);
  }
  return false;
}

}  // namespace gpumem

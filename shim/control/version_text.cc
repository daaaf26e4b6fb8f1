// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/version_text.h"

#include <cstdint>
#include <cstring>

#include "shim/settings/text.h"

namespace gpumemshim::control {

void FormatCudaVersion(int version, char* out, size_t capacity) {
  const auto value = static_cast<uint64_t>(version < 0 ? 0 : version);
  Text(out, capacity).Add(value / 1000).Add('.').Add(value % 1000 / 10);
}

bool ParseTorchVersion(const char* version_py, char* out, size_t capacity) {
  constexpr const char* kName = "__version__ = ";
  const char* line = std::strstr(version_py, kName);
  if (line == nullptr) return false;
  const char* value = line + std::strlen(kName);
  const char quote = *value;
  if (quote != '\'' && quote != '"') return false;
  const char* end = std::strchr(value + 1, quote);
  if (end == nullptr) return false;
  Text text(out, capacity);
  text.Add(value + 1, static_cast<size_t>(end - value - 1));
  return !text.overflowed() && text.size() > 0;
}

}  // namespace gpumemshim::control

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/settings/unknown_settings.h"

#include <cstdint>
#include <cstring>

#include "shim/settings/settings.h"
#include "shim/settings/text.h"

namespace gpumemshim::control {
namespace {

constexpr char kPrefix[] = "GPUMEMSHIM_";
constexpr size_t kPrefixSize = sizeof kPrefix - 1;
constexpr size_t kLongest = 63;    // of a name that is compared
constexpr size_t kMaxNamed = 8;    // in one line
constexpr uint32_t kFarthest = 4;  // edits at which a name still may be meant, less for short ones
constexpr size_t kLongestPrinted = 80;

template <typename Visit>
void ForEachKnown(Visit visit) {
  for (const char* name : kSettingNames) visit(name);
  for (const char* name : kToolSettingNames) visit(name);
  for (const char* name : kProgramSettingNames) visit(name);
}

bool IsInner(const char* name, size_t size) {
  for (const char* inner : kInnerSettingNames) {
    const size_t inner_size = std::strlen(inner);
    const bool begins = size >= inner_size && std::memcmp(inner, name, inner_size) == 0;
    if (begins && (size == inner_size || inner[inner_size - 1] == '_')) return true;
  }
  return false;
}

bool IsKnown(const char* name, size_t size) {
  bool known = IsInner(name, size);
  ForEachKnown([&](const char* candidate) {
    known = known || (std::strlen(candidate) == size && std::memcmp(candidate, name, size) == 0);
  });
  return known;
}

char Upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

uint32_t Least(uint32_t a, uint32_t b, uint32_t c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }

// Insertions, deletions and exchanges of letters from one to the other; case does not matter.
uint32_t Distance(const char* a, size_t a_size, const char* b, size_t b_size) {
  if (a_size > kLongest || b_size > kLongest) return UINT32_MAX;
  uint32_t row[kLongest + 1];
  for (size_t j = 0; j <= b_size; ++j) row[j] = static_cast<uint32_t>(j);
  for (size_t i = 1; i <= a_size; ++i) {
    uint32_t diagonal = row[0];
    row[0] = static_cast<uint32_t>(i);
    for (size_t j = 1; j <= b_size; ++j) {
      const uint32_t above = row[j];
      row[j] = Least(row[j] + 1, row[j - 1] + 1, diagonal + (Upper(a[i - 1]) == Upper(b[j - 1]) ? 0u : 1u));
      diagonal = above;
    }
  }
  return row[b_size];
}

// A name as it may go to a terminal.
void AddName(const char* name, size_t size, Text* text) {
  for (size_t i = 0; i < size && i < kLongestPrinted; ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    text->Add(c < 0x20 || c >= 0x7f ? '?' : name[i]);
  }
}

}  // namespace

const char* NearestSetting(const char* name, size_t size) {
  if (size <= kPrefixSize) return nullptr;
  const size_t own_size = size - kPrefixSize;
  const char* nearest = nullptr;
  uint32_t least = own_size / 2 < kFarthest ? static_cast<uint32_t>(own_size / 2) + 1 : kFarthest + 1;
  ForEachKnown([&](const char* candidate) {
    const char* own = candidate + kPrefixSize;
    const uint32_t distance = Distance(name + kPrefixSize, own_size, own, std::strlen(own));
    if (distance >= least) return;
    least = distance;
    nearest = candidate;
  });
  return nearest;
}

size_t UnknownSettingsLine(const char* const* environment, char* out, size_t capacity) {
  Text text(out, capacity);
  size_t count = 0;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, kPrefix, kPrefixSize) != 0) continue;
    const char* equals = std::strchr(*environment, '=');
    const size_t size = equals == nullptr ? std::strlen(*environment) : static_cast<size_t>(equals - *environment);
    if (IsKnown(*environment, size) || ++count > kMaxNamed) continue;
    text.Add(count == 1 ? "gpumemshim: " : "; ");
    AddName(*environment, size, &text);
    text.Add(" is not a setting of this version");
    const char* nearest = NearestSetting(*environment, size);
    if (nearest != nullptr) text.Add(" (").Add(nearest).Add(" is)");
  }
  if (count == 0) return 0;
  text.Add(". docs/environment.md lists them all.\n");
  return text.size();
}

}  // namespace gpumemshim::control

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What tables of a trace's definitions have in common: ids start at 1, and one that is not known is not an error.

#ifndef GPUMEM_ANALYZER_TRACE_DEFINITION_IDS_H_
#define GPUMEM_ANALYZER_TRACE_DEFINITION_IDS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "trace/limits.h"

namespace gpumem {

inline absl::Status ZeroId(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("a definition of ", what, " without id"));
}

// No name is longer; what is cut off ends with "...". UTF-8 stays UTF-8.
inline std::string ClippedName(std::string name) {
  if (name.size() <= kMaxName) return name;
  size_t end = kMaxName;
  while (end > 0 && (static_cast<uint8_t>(name[end]) & 0xc0) == 0x80) --end;
  name.resize(end);
  return name += "...";
}

template <typename Map>
auto FindOrNull(const Map& map, uint32_t id) -> const typename Map::mapped_type* {
  const auto it = map.find(id);
  return it == map.end() ? nullptr : &it->second;
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_DEFINITION_IDS_H_

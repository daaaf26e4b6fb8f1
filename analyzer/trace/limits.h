// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a trace may ask of its reader, in proportion to its bytes (docs/trace-files.md, "Limits"). A trace that a
// program wrote stays far below; one that was made to cost much time or memory is refused where it goes beyond, packet
// by packet, so that whatever is read twice is refused in the same place.

#ifndef GPUMEM_ANALYZER_TRACE_LIMITS_H_
#define GPUMEM_ANALYZER_TRACE_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// Most bytes that a compressed packet may become; and most for each of its own, which LZ4 cannot reach.
inline constexpr uint64_t kMaxUncompressed = 64u << 20;
inline constexpr uint64_t kMaxRatio = 256;
inline constexpr uint64_t kAlwaysUncompressed = 64u << 10;

// Most events of a packet of the file, compressed or not: for each of its bytes, and in any case. The times alone of a
// program's events take more.
inline constexpr uint64_t kMaxEventsPerByte = 64;
inline constexpr uint64_t kAlwaysEvents = 4096;

// What is turned into objects at once.
inline constexpr size_t kMaxMessage = 1u << 20;     // counters, losses
inline constexpr size_t kMaxDefinition = 8u << 20;  // one definition
inline constexpr size_t kDefinitionsAtOnce = 64u << 10;
inline constexpr size_t kMaxName = 16u << 10;  // further bytes of a name or path are left out

// Rings of killed processes that are read for one file.
inline constexpr uint64_t kMaxRings = 256;

// What tables of a trace's definitions have in common: ids start at 1, and one that is not known is not an error.

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

#endif  // GPUMEM_ANALYZER_TRACE_LIMITS_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FNV-1a (64 bits): the same in every process and version, so that it may be written into files. Not for hash tables,
// and no protection against whoever looks for texts that collide. Reference: draft-eastlake-fnv.
//
//   StableHash("abc") == StableHash("c", StableHash("ab"))

#ifndef GPUMEM_ANALYZER_BASE_STABLE_HASH_H_
#define GPUMEM_ANALYZER_BASE_STABLE_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace gpumem {

inline constexpr uint64_t kStableHashOfNothing = 0xcbf29ce484222325;

// Of `text` behind what `hash` is of.
inline uint64_t StableHash(absl::string_view text, uint64_t hash = kStableHashOfNothing) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_STABLE_HASH_H_

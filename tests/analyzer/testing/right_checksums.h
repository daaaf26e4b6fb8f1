// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// GiveRightChecksums: writes the sync word and the right checksum into every packet of a damaged trace that has room
// for them. A wrong checksum would hide from a test, or a fuzzer, all that comes after it. Thread-safe; cannot fail: it
// stops where the bytes are no packets.
//
//   bytes[100] ^= 1;
//   GiveRightChecksums(&bytes);

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_RIGHT_CHECKSUMS_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_RIGHT_CHECKSUMS_H_

#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "trace/wire.h"

namespace gpumem::testing {

inline void GiveRightChecksums(std::string* bytes) {
  char* at = bytes->data();
  char* const end = at + bytes->size();
  while (end - at > 2 && *at == '\x0a') {
    const char* packet = at + 1;
    uint64_t length = 0;
    if (!ReadVarint(&packet, end, &length) || length > static_cast<uint64_t>(end - packet)) return;
    char* const start = const_cast<char*>(packet);
    if (length >= 14) {
      std::memcpy(start, "\x0dGMT1", 5);
      const XXH64_hash_t checksum = XXH3_64bits(start, length - 9);
      start[length - 9] = '\x79';
      std::memcpy(start + length - 8, &checksum, sizeof(checksum));
    }
    at = start + length;
  }
}

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_RIGHT_CHECKSUMS_H_

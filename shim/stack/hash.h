// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The two steps behind stack and code hashes. Mix: one 64 x 64 -> 128 bit multiplication, folded, for values whose bits
// must spread. Append: a polynomial step for a sequence of values, of which each waits for the one before, so it is one
// addition and one plain multiplication. Together about two nanoseconds a frame.
//
// Thread-safety: pure. Failure: none; equal input gives equal output within one build.
//
//   uint64_t h = kHashSeed; for (pc : pcs) h = Append(h, pc); return Finish(h);

#ifndef GPUMEM_SHIM_STACK_HASH_H_
#define GPUMEM_SHIM_STACK_HASH_H_

#include <cstdint>

namespace gpumemshim::stack {

inline constexpr uint64_t kHashSeed = 0x9E3779B97F4A7C15u;

constexpr uint64_t Fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// The constant keeps a zero operand from wiping out what was mixed before.
constexpr uint64_t Mix(uint64_t hash, uint64_t value) {
  return Fold(hash ^ value, 0xD6E8FEB86659FD93u) + (hash << 1 | hash >> 63);
}

constexpr uint64_t Append(uint64_t hash, uint64_t value) { return (hash + value) * 0xF1357AEA2E62A9C5u; }

// Spreads the bits, since tables are indexed by the lowest. 0 means "no stack", so it is never the name of one.
constexpr uint64_t Finish(uint64_t hash) {
  const uint64_t spread = Fold(hash, kHashSeed) ^ hash;
  return spread == 0 ? 1 : spread;
}

constexpr uint64_t Rotate(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_HASH_H_

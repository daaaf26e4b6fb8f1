// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SuccessorCache: a lossy table whose entries know which one followed them last. Programs that matter here repeat
// themselves: a training step has the stacks of the step before, in its order. So what is looked for is mostly the
// successor of the last one found, and since entries lie in the order in which they first came, it lies behind it:
// eight to a cache line, and fetched ahead by the processor. A hash table has each of a thousand entries in a line of
// its own, which the program has pushed out of the caches since the last step: a tenth of a microsecond each.
//
//   entries   A B C D E F ...        found C: its successor is looked at first, then C itself
//   index     hash -> position       where something else comes
//
// Sets of eight ways in the index; the entry that came first makes room. All zero is the empty table, so fresh pages
// need no constructor.
//
// Thread-safety: one thread. Failure: forgets.
//
//   auto* entry = table.Find(key, [](const Payload&) { return true; });
//   if (entry == nullptr) entry = table.Add(key), entry->payload = ..., entry->key = key;

#ifndef GPUMEM_SHIM_STACK_SUCCESSOR_CACHE_H_
#define GPUMEM_SHIM_STACK_SUCCESSOR_CACHE_H_

#include <cstdint>
#include <cstring>

namespace gpumemshim::stack {

// Keys are hashes, never 0.
template <uint32_t kSlots, typename Payload>
class SuccessorCache {
  static constexpr uint32_t kWays = 8;
  static constexpr uint32_t kSets = kSlots / 4;  // half of the index is empty, so that few sets run over
  static_assert((kSlots & (kSlots - 1)) == 0 && kSlots >= kWays && kSlots < 1u << 16, "a power of two, in 16 bits");

 public:
  struct Entry {
    uint64_t key;  // 0 = empty, or being filled
    [[no_unique_address]] Payload payload;
  };

  // The entry of this key for which is(payload) is true.
  template <typename Is>
  Entry* Find(uint64_t key, Is is) {
    Entry* const expected = &entries_[successors_[last_]];
    if (expected->key == key && is(expected->payload)) [[likely]] {
      last_ = successors_[last_];
      return expected;
    }
    if (entries_[last_].key == key && is(entries_[last_].payload)) return &entries_[last_];
    return FindElsewhere(key, is);
  }

  // The one that will most likely be asked for next.
  const Entry* Expected() const { return &entries_[successors_[last_]]; }

  // An entry for this key, to be filled; its key is to be set last.
  Entry* Add(uint64_t key) {
    const uint32_t position = free_;
    free_ = (position + 1) % kSlots;
    Follow(position);
    entries_[position].key = 0;
    uint32_t* const ways = index_[SetOf(key)].ways;
    std::memmove(ways + 1, ways, (kWays - 1) * sizeof *ways);
    ways[0] = Print(key) | (position + 1);
    return &entries_[position];
  }

  void Clear() {
    std::memset(static_cast<void*>(entries_), 0, sizeof entries_);
    std::memset(index_, 0, sizeof index_);
    last_ = free_ = 0;
  }

 private:
  void Follow(uint32_t position) {
    successors_[last_] = static_cast<uint16_t>(position);
    last_ = position;
  }

  static uint32_t SetOf(uint64_t key) { return static_cast<uint32_t>(key >> 16) % kSets; }
  // Bits of the key that its set does not tell, in front of a position.
  static uint32_t Print(uint64_t key) { return static_cast<uint32_t>(key >> 48) << 16; }

  template <typename Is>
  [[gnu::noinline]] Entry* FindElsewhere(uint64_t key, Is is) {
    for (const uint32_t way : index_[SetOf(key)].ways) {
      if (way == 0) return nullptr;
      if ((way & 0xFFFF0000) != Print(key)) continue;
      const uint32_t position = (way & 0xFFFF) - 1;
      Entry& entry = entries_[position];
      if (entry.key != key || !is(entry.payload)) continue;
      Follow(position);
      return &entry;
    }
    return nullptr;
  }

  struct alignas(32) Set {
    uint32_t ways[kWays];  // newest first: position + 1 below bits of the key; 0 = empty
  };
  uint32_t last_;                // position of the entry that was found last
  uint32_t free_;                // and of the one to be filled next
  uint16_t successors_[kSlots];  // of each: which was found after it last
  alignas(64) Entry entries_[kSlots];
  Set index_[kSets];
};

// SeenSet: which definitions this thread has sent. Lossy: one that others pushed out is sent again, which the ring
// allows, but costs a hundred times as much as finding it. All zero is the empty set, so fresh pages need no
// constructor.
//
//   if (!set.Contains(hash) && Send(hash)) set.Insert(hash);

// Hashes are not 0.
template <uint32_t kSlots>
class SeenSet {
 public:
  bool Contains(uint64_t hash) {
    return seen_.Find(hash, [](Nothing) { return true; }) != nullptr;
  }
  void Insert(uint64_t hash) { seen_.Add(hash)->key = hash; }
  void Clear() { seen_.Clear(); }

 private:
  struct Nothing {};
  SuccessorCache<kSlots, Nothing> seen_;
};

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_SUCCESSOR_CACHE_H_

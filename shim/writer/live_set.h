// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LiveSet: what is alive, kept as the events that made it, so that a new file of a series can begin with them. Played
// to an empty state in their order they give the state again: a reservation, the physical memory made for it, its
// mappings, the release of the handle that only a mapping keeps alive; and for PyTorch its segments and blocks.
//
//   slab:  [Entry] [Entry] [free] ...     index: (space, key) -> place in the slab
//   a physical's references and its release hang on it in a list and go with it
//
// Thread-safety: the writer thread only. Ownership: owns its memory. Failure: without memory, or past a million
// objects, what is new is not kept, and lost() counts it.
//
//   live.Apply(event, {thread, stack, api});
//   live.Sort();
//   for (uint32_t i = 0; i < live.count(); i++) batch.Add(live[i]...);

#ifndef GPUMEM_SHIM_WRITER_LIVE_SET_H_
#define GPUMEM_SHIM_WRITER_LIVE_SET_H_

#include <cstdint>

#include "shim/base/buffer.h"
#include "shim/base/event.h"
#include "shim/base/flat_table.h"

namespace gpumemshim::writer {

// KeyIndex: (space, key) -> place, for things that come and go. Open addressing with linear probing, at most half full;
// a removal moves later entries up, so that there is no decay. In memory of its own.
//
// Thread-safety: one thread at a time. Failure: Insert returns false without memory.
//
//   index.Insert(kPointers, address, 7);
//   index.Remove(kPointers, address);   // 7; kNone where there was none
class KeyIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t Find(uint8_t space, uint64_t key) const {
    if (count_ == 0) return kNone;
    const Slot& slot = slots_[Locate(slots_, space, key)];
    return slot.space == 0 ? kNone : slot.place;
  }

  // (space, key) must not be there. space is not 0.
  bool Insert(uint8_t space, uint64_t key, uint32_t place) {
    if (2 * (count_ + 1) > slots_.size() && !Grow()) return false;
    slots_[Locate(slots_, space, key)] = {key, place, space};
    count_++;
    return true;
  }

  uint32_t Remove(uint8_t space, uint64_t key) {
    if (count_ == 0) return kNone;
    size_t hole = Locate(slots_, space, key);
    if (slots_[hole].space == 0) return kNone;
    const uint32_t place = slots_[hole].place;
    const size_t mask = slots_.size() - 1;
    for (size_t next = (hole + 1) & mask; slots_[next].space != 0; next = (next + 1) & mask) {
      // An entry may move up to the hole unless its home lies behind the hole.
      if (((next - Home(slots_, slots_[next].space, slots_[next].key)) & mask) < ((next - hole) & mask)) continue;
      slots_[hole] = slots_[next];
      hole = next;
    }
    slots_[hole] = {};
    count_--;
    return place;
  }

 private:
  struct Slot {
    uint64_t key;
    uint32_t place;
    uint8_t space;  // 0 = empty
  };

  static size_t Home(const Array<Slot>& slots, uint8_t space, uint64_t key) {
    return MixBits(key + (uint64_t{space} << 56)) & (slots.size() - 1);
  }
  static size_t Locate(const Array<Slot>& slots, uint8_t space, uint64_t key) {
    size_t at = Home(slots, space, key);
    while (slots[at].space != 0 && !(slots[at].key == key && slots[at].space == space))
      at = (at + 1) & (slots.size() - 1);
    return at;
  }

  bool Grow() {
    const size_t size = slots_.size() == 0 ? 1024 : slots_.size() * 2;
    Array<Slot> bigger;
    if (!bigger.Reserve(size)) return false;
    bigger.Resize(size);  // fresh memory: all zero
    for (size_t i = 0; i < slots_.size(); i++) {
      const Slot& slot = slots_[i];
      if (slot.space != 0) bigger[Locate(bigger, slot.space, slot.key)] = slot;
    }
    slots_.Swap(bigger);
    return true;
  }

  Array<Slot> slots_;
  size_t count_ = 0;
};

// What an event refers to, as ids of the trace.
struct EventIds {
  uint32_t thread;
  uint32_t stack;
  uint32_t api;
};

class LiveSet {
 public:
  static constexpr uint32_t kMaxObjects = 1u << 20;

  struct Entry {
    Event event;
    EventIds ids;
    uint32_t next;      // what hangs on a physical: its place in the slab + 1
    uint32_t physical;  // of a mapping: its place + 1
    uint32_t refs, maps;
    uint64_t order;  // 0 = not in use
    bool torch_segment;
  };

  void Apply(const Event& event, const EventIds& ids);

  // Puts the entries in the order of their events. Entries are valid until the next Apply.
  bool Sort();
  uint32_t count() const { return static_cast<uint32_t>(sorted_.size()); }
  const Entry& operator[](uint32_t i) const { return slab_[sorted_[i].place]; }

  uint64_t lost() const { return lost_; }

 private:
  enum Space : uint8_t {
    kBlocks = 1,  // of PyTorch; the others are CUDA's
    kPointers,
    kArrays,
    kRegistered,
    kImported,
    kReservations,
    kMappings,
    kHandles,
    kPools,
    kModules
  };
  // What the last event of a thread took away, for the correction that may follow.
  struct Undo {
    Entry entry;
    uint32_t thread;
    Space space;  // 0 = nothing
  };
  struct Sorted {
    uint64_t order;
    uint32_t place;
  };
  static constexpr uint32_t kUndos = 64;

  void ApplyTorch(const Event& event, const EventIds& ids);
  void ApplyCuda(const Event& event, const EventIds& ids);
  void ApplyVirtual(const Event& event, const EventIds& ids);
  void ApplyModule(const Event& event, const EventIds& ids);
  bool ApplyExisting(const Event& event, const EventIds& ids);
  void AddExisting(const Event& event, const EventIds& ids);
  void DropOlder();
  uint32_t Add(Space space, uint64_t key, const Event& event, const EventIds& ids);
  uint32_t TakePlace(const Event& event, const EventIds& ids);
  bool Remove(Space space, uint64_t key, uint32_t thread);
  void Restore(const Event& event, uint32_t thread);
  void Hang(uint32_t physical, const Event& event, const EventIds& ids);
  void DropHung(uint32_t physical);
  void Release(const Event& event, const EventIds& ids);
  void Unmap(const Event& event, const EventIds& ids);
  void DropIfUnused(uint32_t place);
  void Reset(int16_t device);
  void MarkSegment(uint64_t address);
  void Free(uint32_t place);
  static Space SpaceOf(const Event& event);

  Array<Entry> slab_{kMaxObjects};
  Array<uint32_t> free_{kMaxObjects};
  Array<Sorted> sorted_{kMaxObjects};
  KeyIndex index_;
  Undo undo_[kUndos] = {};
  Array<uint64_t> freed_{kMaxObjects};  // unknown blocks, while what existed before the recording is being told
  bool watches_ = false;
  uint64_t start_order_ = 0;  // of the last entry from before it
  uint64_t last_order_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_LIVE_SET_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory: what the fibers' accesses mean. Keeps the happens-before order of C++ by vector clocks, so that a read of
// bytes that are not ordered behind their writing is found whatever the schedule; and holds stores back on demand, as a
// processor's store buffer does: a later store without release may overtake, a load does not see another's buffer.
//
// Loads happen in program order, and a read-modify-write empties its thread's buffer first. A processor may be weaker
// in both; what is missed there the sanitizer's run of the stress tests may find.
//
// Not thread-safe. Addresses outside Watch's ranges are not looked at for races; the first range is what outlives a
// kill.
//
//   Memory::Get().Watch(ring, bytes);

#ifndef GPUMEM_TESTS_SHIM_RING_MODEL_MEMORY_H_
#define GPUMEM_TESTS_SHIM_RING_MODEL_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "explorer.h"

namespace model {

using VectorClock = std::array<uint32_t, kMaxFibers>;

class Memory {
 public:
  static Memory& Get();
  void Reset();
  void Watch(const void* start, size_t bytes);

  // Atomic operations of the current fiber; `order` is __ATOMIC_*.
  uint64_t Load(const void* address, int bytes, int order);
  void Store(void* address, int bytes, uint64_t value, int order);
  // Around a read-modify-write: the caller changes the memory in between.
  void BeforeUpdate(void* address, int bytes, int order);
  void AfterUpdate(void* address, int bytes, int order);
  // Plain ones.
  void PlainRead(const void* address, size_t bytes);
  void PlainWrite(const void* address, size_t bytes);

  // membarrier: a full fence on every thread at once.
  void BarrierForAll();
  // Somebody learned that `fiber` is gone, so all that it did is over.
  void Join(int fiber);

  bool HoldsBackAny() const;
  void FlushAll(int fiber);

 private:
  struct Cell {  // of four bytes
    uint32_t execution = 0;
    int8_t writer = -1;
    bool written_atomically = false;
    uint32_t write_time = 0;
    VectorClock reads{};  // plain ones
  };
  struct Range {
    uintptr_t start, end;
    std::vector<Cell> cells;
  };
  struct HeldStore {
    void* address;
    int bytes;
    uint64_t value;
    bool is_release;
    VectorClock clock;
  };
  struct Released {
    uint32_t execution = 0;
    VectorClock clock{};
  };

  Cell* CellOf(uintptr_t address);
  void Check(const void* address, size_t bytes, bool is_write, bool is_atomic);
  void FlushOldest(int fiber);
  void MeetHeldStores(const void* address);
  void Publish(void* address, bool is_release, const VectorClock& clock);
  void Acquire(const void* address);
  VectorClock& clock();
  void Raced(const void* address, const char* what);

  uint32_t execution_ = 0;
  std::vector<Range> ranges_;
  std::array<VectorClock, kMaxFibers> clocks_{};
  std::array<std::deque<HeldStore>, kMaxFibers> buffers_;
  std::unordered_map<const void*, Released> released_;
  std::array<const void*, kMaxFibers> last_load_{};
  std::array<uint64_t, kMaxFibers> last_value_{};
};

}  // namespace model

#endif  // GPUMEM_TESTS_SHIM_RING_MODEL_MEMORY_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "memory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace model {
namespace {

bool Releases(int order) { return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST; }
bool Acquires(int order) {
  return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
         order == __ATOMIC_SEQ_CST;
}

void Merge(const VectorClock& from, VectorClock* into) {
  for (int i = 0; i < kMaxFibers; ++i) (*into)[i] = std::max((*into)[i], from[i]);
}

}  // namespace

Memory& Memory::Get() {
  static Memory memory;
  return memory;
}

void Memory::Reset() {
  ++execution_;
  for (int i = 0; i < kMaxFibers; ++i) {
    clocks_[i] = {};
    clocks_[i][i] = 1;
    buffers_[i].clear();
    last_load_[i] = nullptr;
  }
}

void Memory::Watch(const void* start, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(start);
  for (const Range& range : ranges_) {
    if (range.start == at) return;
  }
  ranges_.push_back({at, at + bytes, std::vector<Cell>(bytes / 4)});
}

VectorClock& Memory::clock() { return clocks_[Explorer::Get().current()]; }

Memory::Cell* Memory::CellOf(uintptr_t address) {
  for (Range& range : ranges_) {
    if (address < range.start || address >= range.end) continue;
    Cell& cell = range.cells[(address - range.start) / 4];
    if (cell.execution != execution_) {
      cell = {};
      cell.execution = execution_;
    }
    return &cell;
  }
  return nullptr;
}

void Memory::Raced(const void* address, const char* what) {
  char text[160];
  const auto at = reinterpret_cast<uintptr_t>(address);
  unsigned long long offset = at;
  for (const Range& range : ranges_) {
    if (at >= range.start && at < range.end) offset = at - range.start;
  }
  std::snprintf(text, sizeof(text), "a race: fiber %d %s at offset %llu", Explorer::Get().current(), what, offset);
  Explorer::Get().Fail(text);
}

void Memory::Check(const void* address, size_t bytes, bool is_write, bool is_atomic) {
  const bool outlives = !ranges_.empty() && reinterpret_cast<uintptr_t>(address) >= ranges_[0].start &&
                        reinterpret_cast<uintptr_t>(address) < ranges_[0].end;
  if (is_write && outlives) Explorer::Get().SetChanged();
  const int self = Explorer::Get().current();
  const VectorClock& now = clocks_[self];
  const auto start = reinterpret_cast<uintptr_t>(address);
  for (uintptr_t at = start & ~uintptr_t{3}; at < start + bytes; at += 4) {
    Cell* const cell = CellOf(at);
    if (cell == nullptr) return;
    const bool both_atomic = is_atomic && cell->written_atomically;
    if (cell->writer >= 0 && !both_atomic && now[cell->writer] < cell->write_time) {
      Raced(address, is_write ? "writes what another has written" : "reads what another has written");
    }
    if (is_write) {
      for (int i = 0; i < kMaxFibers; ++i) {
        if (i != self && now[i] < cell->reads[i]) Raced(address, "writes what another has read");
      }
      cell->writer = static_cast<int8_t>(self);
      cell->written_atomically = is_atomic;
      cell->write_time = now[self];
    } else if (!is_atomic) {
      cell->reads[self] = now[self];
    }
  }
}

void Memory::Acquire(const void* address) {
  const auto found = released_.find(address);
  if (found != released_.end() && found->second.execution == execution_) Merge(found->second.clock, &clock());
}

// Whether another's held store comes first matters to nobody but who looks at its place.
void Memory::MeetHeldStores(const void* address) {
  for (int i = 0; i < kMaxFibers; ++i) {
    if (i == Explorer::Get().current()) continue;
    const auto holds = [&] {
      return std::any_of(buffers_[i].begin(), buffers_[i].end(),
                         [&](const HeldStore& held) { return held.address == address; });
    };
    if (!holds() || !Explorer::Get().ChooseFlush()) continue;
    while (holds()) FlushOldest(i);
  }
}

uint64_t Memory::Load(const void* address, int bytes, int order) {
  const int self = Explorer::Get().current();
  uint64_t value = 0;
  std::memcpy(&value, address, static_cast<size_t>(bytes));
  // A second look at what has not changed is the same step as the first.
  if (last_load_[self] != address || last_value_[self] != value) {
    Explorer::Get().Point();
    MeetHeldStores(address);
  }
  value = 0;
  std::memcpy(&value, address, static_cast<size_t>(bytes));
  last_load_[self] = address;
  last_value_[self] = value;
  for (const HeldStore& held : buffers_[self]) {
    if (held.address == address) value = held.value;
  }
  Check(address, static_cast<size_t>(bytes), false, true);
  if (Acquires(order)) Acquire(address);
  return value;
}

void Memory::Publish(void* address, bool is_release, const VectorClock& clock) {
  Released& released = released_[address];
  released.execution = execution_;
  released.clock = is_release ? clock : VectorClock{};
}

void Memory::Store(void* address, int bytes, uint64_t value, int order) {
  Explorer& explorer = Explorer::Get();
  explorer.Point();
  const int self = explorer.current();
  last_load_[self] = nullptr;
  MeetHeldStores(address);
  Check(address, static_cast<size_t>(bytes), true, true);
  std::deque<HeldStore>& buffer = buffers_[self];
  if (order == __ATOMIC_SEQ_CST) FlushAll(self);
  bool hold = false;
  if (!buffer.empty()) {
    hold = Releases(order);
    for (const HeldStore& held : buffer) hold = hold || held.address == address;
  }
  hold = hold || (order != __ATOMIC_SEQ_CST && explorer.ChooseDelay());
  if (hold) {
    buffer.push_back({address, bytes, value, Releases(order), clock()});
  } else {
    std::memcpy(address, &value, static_cast<size_t>(bytes));
    Publish(address, Releases(order), clock());
  }
  if (Releases(order)) ++clock()[self];
  if (order == __ATOMIC_SEQ_CST) Acquire(address);
}

void Memory::BeforeUpdate(void* address, int bytes, int order) {
  Explorer::Get().Point();
  MeetHeldStores(address);
  FlushAll(Explorer::Get().current());
  last_load_[Explorer::Get().current()] = nullptr;
  Check(address, static_cast<size_t>(bytes), false, true);
  if (Acquires(order)) Acquire(address);
}

// An update continues what the store before it has released.
void Memory::AfterUpdate(void* address, int bytes, int order) {
  Check(address, static_cast<size_t>(bytes), true, true);
  Released& released = released_[address];
  if (released.execution != execution_) released = {execution_, {}};
  if (!Releases(order)) return;
  Merge(clock(), &released.clock);
  ++clock()[Explorer::Get().current()];
}

void Memory::PlainRead(const void* address, size_t bytes) { Check(address, bytes, false, false); }
void Memory::PlainWrite(const void* address, size_t bytes) { Check(address, bytes, true, false); }

void Memory::BarrierForAll() {
  Explorer::Get().Point();
  VectorClock all{};
  for (int i = 0; i < kMaxFibers; ++i) {
    FlushAll(i);
    Merge(clocks_[i], &all);
  }
  for (int i = 0; i < kMaxFibers; ++i) {
    clocks_[i] = all;
    ++clocks_[i][i];
  }
}

void Memory::Join(int fiber) { Merge(clocks_[fiber], &clock()); }

bool Memory::HoldsBackAny() const {
  for (const auto& buffer : buffers_) {
    if (!buffer.empty()) return true;
  }
  return false;
}

void Memory::FlushOldest(int fiber) {
  const HeldStore held = buffers_[fiber].front();
  buffers_[fiber].pop_front();
  Explorer::Get().SetChanged();
  std::memcpy(held.address, &held.value, static_cast<size_t>(held.bytes));
  Publish(held.address, held.is_release, held.clock);
}

void Memory::FlushAll(int fiber) {
  while (!buffers_[fiber].empty()) FlushOldest(fiber);
}

}  // namespace model

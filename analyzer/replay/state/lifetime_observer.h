// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LifetimeObserver: receives everything that a LiveState begins and ceases to hold, while it happens. For what can be
// said of a thing only once its whole life is known: how long it was held, and as what it was counted in the end
// (whether memory is a PyTorch segment may show later than its allocation). Called in the middle of LiveState::Apply:
// read the thing at its place, change nothing.
//
//   state.Observe(&observer);
//   state.Apply(batch, i, following);   // -> observer.OnAlloc(Held::kBlock, 17): state.blocks()[17]

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_LIFETIME_OBSERVER_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_LIFETIME_OBSERVER_H_

#include <cstdint>

namespace gpumem {

// Which of LiveState's slabs a place belongs to.
enum class Held : uint8_t {
  kBlock,       // blocks()
  kAllocation,  // cuda().allocations(), without the memory of graphs: its size is stated anew again and again
  kPhysical,    // cuda().physicals()
  kDriver,      // driver_pieces(): part of no total, and shown only to who wants them
};

class LifetimeObserver {
 public:
  virtual ~LifetimeObserver() = default;
  virtual bool WantsDriver() const { return false; }
  virtual void OnAlloc(Held kind, uint32_t place) = 0;
  // The thing is still there to be read. Whatever the reason: a free, an address that was given out again, a segment or
  // a context that went.
  virtual void OnFree(Held kind, uint32_t place) = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_LIFETIME_OBSERVER_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The moment of a failed request in detail: who filled the device, how free space lay inside the segments, what would
// have fit. Looked at after the first pass has found the requests, so that a program which fails a thousand times does
// not cost a thousand live sets.
//
//   std::vector<StateLook> looks = LooksAtOoms(names, settings, &analysis.ooms);   // the vector must not move
//   meanwhile Revisit(&reader, checkpoints, std::move(looks)); EstimateExpandableFits(&reader, checkpoints,
//   &analysis.ooms);

#ifndef GPUMEM_ANALYZER_REPLAY_OOM_MOMENT_H_
#define GPUMEM_ANALYZER_REPLAY_OOM_MOMENT_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "replay/analysis.h"
#include "replay/free_space.h"
#include "replay/state/checkpoints.h"
#include "replay/state/lifetime_observer.h"
#include "replay/state/live_state.h"
#include "replay/state/replay.h"
#include "trace/reader.h"
#include "trace/stack_table.h"

namespace gpumem {

// ExpandableModel: where the blocks of a recorded program would lie had PyTorch used expandable segments, and what
// would fit then. Each pool of a device is one segment (more where it outgrows the addresses reserved): a block takes
// the smallest free range that holds it (the lowest of several), else the free range at the end is mapped further, page
// by page. Pages without a block go back when a request does not fit (free_space.h).
//
// An estimate: the trace says neither the stream nor the private pool of a block, so all share one segment; and pages
// are given back only in LargestFit(). Where one stream is used and nothing was given back before, it is exact.
//
// O(log n) an event. Not thread-safe.
//
//   ExpandableModel model({{SlotOfDevice(0), 80 * kGiB}});
//   Revisit(&reader, checkpoints, looks, [&](LiveState* state) { model.Begin(state); });  // looks ask LargestFit()

// One pool of one device: reservations of addresses, one behind the other, each mapped from its start. Another is made
// where a block has no room in the last.
class ExpandablePool {
 public:
  // `reservation` bytes each, UINT64_MAX / 4 at most.
  ExpandablePool(uint64_t page, uint64_t reservation) : page_(page), reservation_(RoundUp(reservation, page)) {}

  // Returns the block's address. `size` is a multiple of kBlockStep and not 0.
  uint64_t Alloc(uint64_t size);
  // Of an address from Alloc() that was not freed since.
  void Free(uint64_t address);
  bool is_full() const { return end_ > UINT64_MAX / 2; }
  // What stays mapped once pages without a block went back.
  uint64_t LeastMapped() const;
  // The largest request that fits then, with `free` further bytes to be had from CUDA; without any, in what is mapped.
  uint64_t LargestFit(uint64_t free) const;

 private:
  void AddFree(uint64_t address, uint64_t size);
  void EraseFree(std::map<uint64_t, uint64_t>::iterator range);

  void Reserve(uint64_t size);

  uint64_t page_, reservation_;
  uint64_t top_ = 0, end_ = 0;                       // of the last reservation: how far it is mapped, and where it ends
  uint64_t mapped_ = 0;                              // in all of them
  std::map<uint64_t, uint64_t> blocks_;              // address, size
  std::map<uint64_t, uint64_t> free_;                // the same; never two that touch
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // of free_: size, address
};

class ExpandableModel final : public LifetimeObserver {
 public:
  // `totals`: bytes of each device, by slot; PyTorch reserves 9/8 of them at a time. 0: as much as is needed.
  explicit ExpandableModel(std::map<uint32_t, uint64_t> totals) : totals_(std::move(totals)) {}

  // Takes the blocks that live, and observes the state from now on. The state must outlive this.
  void Begin(LiveState* state);

  // The largest request that device `slot` could serve if `bytes` of it are to be had in all, of which PyTorch limits
  // itself to `limit`; none where the trace did not say everything from the start.
  std::optional<uint64_t> LargestFit(uint32_t slot, uint64_t bytes, uint64_t limit);

  void OnAlloc(Held kind, uint32_t place) override;
  void OnFree(Held kind, uint32_t place) override;

 private:
  struct Device {
    ExpandablePool small, large;
  };
  Device& DeviceOf(uint32_t slot);

  struct Placed {
    uint32_t slot = 0;
    bool is_small = false;
    uint64_t address = 0;
  };

  std::map<uint32_t, uint64_t> totals_;
  const LiveState* state_ = nullptr;
  std::map<uint32_t, Device> devices_;
  absl::flat_hash_map<uint32_t, Placed> placed_;  // by the block's place in the state
};

// At most so many requests are looked at: the last ones that failed for good, then the last of the others.
inline constexpr size_t kMaxOomMoments = 64;

// What the program wants of PyTorch's allocator.
struct AllocatorSettings {
  std::map<int, uint64_t> limits;    // device -> bytes that it may reserve there (FirstPass::torch_limits)
  bool expandable_segments = false;  // PYTORCH_CUDA_ALLOC_CONF asks for them
};

// The looks keep references to `names` and `settings`.
std::vector<StateLook> LooksAtOoms(const StackTable& names, const AllocatorSettings& settings,
                                   std::vector<OomEvent>* ooms);

// fit_expandable of those of PyTorch's requests that the looks described. One more pass over the trace up to the last
// of them; none where there is no such request.
void EstimateExpandableFits(TraceReader* reader, const Checkpoints& checkpoints, std::vector<OomEvent>* ooms);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_OOM_MOMENT_H_

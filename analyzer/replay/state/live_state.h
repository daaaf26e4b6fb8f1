// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LiveState: everything that is alive after an event: PyTorch's blocks, CUDA's memory, and their totals. The exact
// replay itself; what is measured on the way (peaks, timelines, failures) lies in other classes that look at it.
// Copyable value, so that a replay can go on from a copy. Not thread-safe. Any sequence of events is accepted; what
// cannot be is counted in accounts().
//
//   LiveState state(LayerFilter::kAll);
//   uint32_t slot = state.Apply(batch, i, following);
//   state.values(slot).allocated;

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_LIVE_STATE_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_LIVE_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "absl/container/btree_map.h"
#include "replay/state/accounts.h"
#include "replay/state/address_index.h"
#include "replay/state/batch_stream.h"
#include "replay/state/cuda_memory.h"
#include "replay/state/lifetime_observer.h"
#include "replay/state/residual_memory.h"
#include "trace/event_batch.h"
#include "trace/reader.h"

namespace gpumem {

// What of a device's memory the driver took beside the sizes that were asked for, with who made it do so.
struct DriverPiece {
  // Growth and local memory: of the context of that handle.
  enum class Sort : uint8_t { kContext, kModule, kGrowth, kLocal };
  uint64_t handle = 0, size = 0, stack = 0, time_ns = 0;  // size 0 = not measured
  uint64_t thread_bytes = 0;                              // local memory: of a thread
  uint32_t slot = 0, thread = 0, api = 0;
  uint8_t layer = 0;
  Sort sort = Sort::kContext;
  bool live = false;
};

// DriverUseTable: the contexts, modules and graphs that are alive, with what each was measured to take of its device.
// Keeps Accounts' DriverUse up to date. Copyable value, so that a replay can go on from a copy. Not thread-safe.
//
//   if (DriverUseTable::Concerns(row.kind)) table.Apply(row, &accounts);
class DriverUseTable {
 public:
  static bool Concerns(uint32_t kind);
  void Apply(const EventRow& row, Accounts* accounts);
  void Observe(LifetimeObserver* observer) { observer_ = observer; }  // LiveState::Observe
  // Graphs' memory is none of them: its size is stated anew again and again.
  const Slab<DriverPiece>& pieces() const { return pieces_; }

 private:
  using Sort = DriverPiece::Sort;
  using Key = std::tuple<uint32_t, Sort, uint64_t>;  // slot, sort, handle

  void Add(Sort sort, uint32_t slot, const EventRow& row, Accounts* accounts);
  void Remove(std::map<Key, uint32_t>::iterator it, Accounts* accounts);
  void RemoveDevice(uint32_t slot, Accounts* accounts);
  static void Count(Sort sort, uint64_t size, int64_t sign, DriverUse* use);

  Slab<DriverPiece> pieces_;
  std::map<Key, uint32_t> alive_;  // to the place
  LifetimeObserver* observer_ = nullptr;
};

// EarlierBlocks: PyTorch's blocks that were alive where events are missing, by address. A block that begins later where
// one of them lies shows that it ended meanwhile, also where the two do not begin at the same address. Copyable value;
// not thread-safe.
//
//   earlier.Add(block.address, block.size, place); ... earlier.Sort();
//   earlier.ForEachIn(address, size, [&](uint64_t address, uint32_t place) { ... });   // which may have ended since
class EarlierBlocks {
 public:
  void Clear() { blocks_.clear(); }
  void Add(uint64_t address, uint64_t size, uint32_t place) { blocks_.push_back({address, address + size, place}); }
  void Sort() {
    std::sort(blocks_.begin(), blocks_.end(), [](const Block& a, const Block& b) { return a.address < b.address; });
  }

  // Those that share a byte with [address, address + size). They are taken not to overlap each other.
  template <typename Visit>
  void ForEachIn(uint64_t address, uint64_t size, Visit visit) const {
    auto block = std::partition_point(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.end <= address; });
    for (; block != blocks_.end() && block->address < address + size; ++block) visit(block->address, block->place);
  }

 private:
  struct Block {
    uint64_t address, end;
    uint32_t place;
  };
  std::vector<Block> blocks_;
};

struct TorchBlock {
  uint64_t address = 0, size = 0, requested = 0, stack = 0, time_ns = 0;
  SegmentRef segment;
  uint32_t api = 0;
  uint32_t thread = 0;  // that allocated it
  uint16_t slot = 0;
  bool live = false;
};

class LiveState {
 public:
  explicit LiveState(LayerFilter filter)
      : filter_(filter), cuda_(filter), sees_torch_(filter == LayerFilter::kAll || filter == LayerFilter::kTorch) {}

  // Applies event `i`. `following` is the batch after this one, or null. Returns the slot of the device whose totals
  // may have changed.
  uint32_t Apply(const EventBatch& batch, size_t i, const EventBatch* following) {
    if (IsMark(batch.kind(i)) || IsLabel(batch.kind(i)) || IsExisting(batch.kind(i))) [[unlikely]]
      return slots();  // changes no memory
    if (!accounts_.work.CountEvent()) [[unlikely]]
      return slots();
    if (batch.layer(i) != trace::TORCH) return ApplyCuda(batch, i, following);
    return ApplyTorch(batch, i);
  }

  // From now on `observer` receives what begins and ends; null: nobody. It must outlive this and what is copied from
  // it. A call of Resume ends it.
  void Observe(LifetimeObserver* observer) {
    observer_ = observer;
    cuda_.Observe(observer);
    driver_use_.Observe(observer != nullptr && observer->WantsDriver() ? observer : nullptr);
  }

  // Forgets what is alive and takes what a file of a series began with instead; or, where the snapshot is only of
  // PyTorch's allocator, what that had. Returns its number of events. Nothing happens where `live_snapshot` is empty.
  uint64_t Resume(const std::vector<LiveSnapshotBatch>& live_snapshot);

  // What a gap before a batch means for the totals, and what PyTorch's own say since. Behind a gap memory that was
  // alive before may be gone, and memory from inside it is not known: PyTorch's totals make the sums right again, not
  // the list of what they are made of.
  void Bridge(const BatchEntry& entry);
  // Events are missing before what was replayed last, or among it.
  bool has_gap() const { return has_gap_; }
  // Whether a device holds at least what is counted, as PyTorch's part goes: not behind a gap until PyTorch says its
  // totals, and not once frees were dropped, since nothing says where.
  bool IsSure(uint32_t slot) const {
    return !has_gap_ || slot >= slots() ||
           !(accounts_.devices[slot].unsure || (lost_.others != 0 && accounts_.devices[slot].torch_events != 0));
  }
  // What a device is sure to hold, where IsSure.
  MeasureValues LeastValues(uint32_t slot) const {
    return has_gap_ ? LeastBehindGap(accounts_.devices[slot]) : accounts_.devices[slot].values;
  }
  // Frees of CUDA memory may be missing: what is not PyTorch's may be less than is counted.
  bool may_lack_frees() const { return may_lack_frees_; }

  const MeasureValues& values(uint32_t slot) const { return accounts_.devices[slot].values; }
  uint32_t slots() const { return static_cast<uint32_t>(accounts_.devices.size()); }
  const Accounts& accounts() const { return accounts_; }
  const CudaMemory& cuda() const { return cuda_; }
  const ResidualMemory& residual() const { return residual_; }
  const Slab<TorchBlock>& blocks() const { return blocks_; }
  // That were freed and are in use by another stream, by address; only imports of PyTorch's snapshots tell.
  const absl::btree_map<uint64_t, TorchBlock>& pending_frees() const { return pending_frees_; }
  const Slab<DriverPiece>& driver_pieces() const { return driver_use_.pieces(); }
  // The block that begins at an address; AddressIndex::kNone where none does.
  uint32_t FindBlock(uint64_t address) const { return address == 0 ? AddressIndex::kNone : block_index_.Find(address); }
  // Each thing that lives and is part of a total, as visit(Held, place).
  template <typename Visit>
  void ForEachPlace(Visit visit) const {
    blocks_.ForEachPlace([&](uint32_t place, const TorchBlock&) { visit(Held::kBlock, place); });
    cuda_.allocations().ForEachPlace([&](uint32_t place, const CudaAllocation&) { visit(Held::kAllocation, place); });
    cuda_.physicals().ForEachPlace([&](uint32_t place, const PhysicalHandle&) { visit(Held::kPhysical, place); });
  }
  // What a copy costs: things that live, and places of those that lived.
  size_t places() const { return blocks_.places() + cuda_.places(); }
  // More work was asked for than a trace of so few events can need: what follows is not replayed (accounts.h).
  bool gave_up() const { return accounts_.work.exhausted(); }

 private:
  uint32_t ApplyTorch(const EventBatch& batch, size_t i);
  uint32_t ApplyCuda(const EventBatch& batch, size_t i, const EventBatch* following);
  void AddBlock(const EventBatch& batch, size_t i, uint32_t slot);
  void RemoveBlock(uint32_t place);
  void Forget(uint32_t place);
  void TakeTotals(uint32_t slot, const MeasureValues& totals);
  void FindLostSegment(uint32_t slot, uint64_t size);
  void BeginGap(uint64_t gap_ns);
  void TakeLost(const LostEvents& lost);
  MeasureValues LeastBehindGap(const DeviceAccount& device) const;
  void FreeUnknown(const EventBatch& batch, size_t i, DeviceAccount* device);
  void EndAssumed(uint32_t place);
  void EndEarlier(uint64_t address, uint64_t size);
  void DropBlocks(uint64_t start, uint64_t end);
  void DropBlocksOfDevice(uint32_t slot);
  void DropTorch();
  uint64_t ApplyAll(const std::vector<LiveSnapshotBatch>& live_snapshot);

  LayerFilter filter_;
  CudaMemory cuda_;
  ResidualMemory residual_;
  DriverUseTable driver_use_;
  Accounts accounts_;
  Slab<TorchBlock> blocks_;
  absl::btree_map<uint64_t, TorchBlock> pending_frees_;
  AddressIndex block_index_;
  LifetimeObserver* observer_ = nullptr;
  bool sees_torch_;
  bool has_gap_ = false;
  bool may_lack_frees_ = false;
  LostEvents lost_;
  uint64_t gap_ns_ = 0;      // what is older was alive before it
  EarlierBlocks earlier_;    // as of the last gap
  uint64_t earlier_at_ = 0;  // so many events were replayed then
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_LIVE_STATE_H_

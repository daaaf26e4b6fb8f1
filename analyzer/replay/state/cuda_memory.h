// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CudaMemory: what the driver and the runtime have handed out and not taken back: allocations, pinned host memory,
// imports; and, for virtual memory management, reservations, physical handles and mappings. Keeps Accounts up to date.
//
// What counts towards a device: allocations of device memory (ordinary, stream-ordered, arrays) and physical handles,
// each once however often it is mapped, until its last reference and its last mapping are gone. Managed, pinned and
// imported memory are accounts of their own.
//
// A torch segment is an allocation, or a reservation, that holds or held a torch block, or will as the thread's next
// events show. Its bytes (of a reservation: of the handles mapped into it) count as reserved, all others as other.
//
//      reservation  |---- address space -------------------------------|
//      mappings     |--20 MiB--|--20 MiB--|--20 MiB--|                      each of a handle (physical memory)
//      torch blocks |bb|bbbbbbbbbbbbbb|  |bbb|                              may span mappings
//
// Graphs' memory is one allocation a device, as large as the driver last said. A pool's allocations are where the pool
// is. An external object's buffers are mappings of it. Contexts and modules are in ResidualMemory.
//
// Copyable value, so that a replay can go on from a copy. Not thread-safe. Nothing in it fails: impossible events are
// counted in Accounts.

#ifndef GPUMEM_ANALYZER_REPLAY_STATE_CUDA_MEMORY_H_
#define GPUMEM_ANALYZER_REPLAY_STATE_CUDA_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "replay/state/accounts.h"
#include "replay/state/address_index.h"
#include "replay/state/communicators.h"
#include "replay/state/lifetime_observer.h"
#include "trace/event_batch.h"

namespace gpumem {

// Lookahead: what the same thread does next. PyTorch's reports name no segment, but within one malloc the CUDA call and
// the block that comes of it follow each other on one thread; so whether a CUDA allocation becomes a segment is known
// at its own time, and `other` never holds a segment for a moment. Looks into the current batch and the one after it,
// over a bounded number of events. A value; owns nothing.
//
//   ahead.ForThread(thread, [&](const EventBatch& batch, size_t i) { return batch.layer(i) != trace::TORCH; });  //
//   false stops
class Lookahead {
 public:
  // `following` may be null. `index` is the event in `current` behind which the view starts. `work`, which must outlive
  // this, counts the events that are looked at.
  Lookahead(const EventBatch* current, size_t index, const EventBatch* following, ReplayWork* work)
      : current_(current), following_(following), index_(index), work_(work) {}

  // Visits the thread's next events in order until `visit` returns false.
  template <typename Visit>
  void ForThread(uint32_t thread, Visit visit) const {
    size_t all_left = kMaxEvents;
    size_t own_left = kMaxOwnEvents;
    if (Walk(*current_, index_ + 1, thread, &all_left, &own_left, visit) && following_ != nullptr)
      Walk(*following_, 0, thread, &all_left, &own_left, visit);
    work_->Spend(kMaxEvents - all_left);
  }

 private:
  static constexpr size_t kMaxEvents = 16384;
  static constexpr size_t kMaxOwnEvents = 4096;

  template <typename Visit>
  static bool Walk(const EventBatch& batch, size_t from, uint32_t thread, size_t* all_left, size_t* own_left,
                   Visit& visit) {
    for (size_t i = from; i < batch.count(); ++i) {
      if (*all_left == 0) return false;
      --*all_left;
      if (batch.thread(i) != thread) continue;
      if ((*own_left)-- == 0 || !visit(batch, i)) return false;
    }
    return true;
  }

  const EventBatch* current_;
  const EventBatch* following_;
  size_t index_;
  ReplayWork* work_;
};

// Names an allocation or a reservation that can hold torch blocks.
struct SegmentRef {
  static constexpr uint32_t kReservationBit = 1u << 31;
  uint32_t value = UINT32_MAX;

  bool is_none() const { return value == UINT32_MAX; }
  bool is_reservation() const { return !is_none() && (value & kReservationBit) != 0; }
  uint32_t place() const { return value & ~kReservationBit; }
};

// Whose blocks a torch segment holds: PyTorch's allocator gives a segment to one stream and one pool, until it goes.
struct SegmentOwner {
  uint64_t stream = 0;  // PyTorch's id; 0 = the default one, or not known
  uint64_t pool = 0;    // the capture of a CUDA graph that first had a block in it; in imports the pool's id; 0 = none
  bool is_known = false;
};

struct CudaAllocation {
  uint64_t address = 0, size = 0, stack = 0, time_ns = 0;
  uint32_t api = 0, live_blocks = 0;
  uint64_t context = 0;  // 0: the primary one of its device
  uint32_t slot = 0;
  uint32_t thread = 0;        // that allocated it
  uint32_t communicator = 0;  // that was being made; 0 = none
  uint8_t layer = 0, memory = 0;
  bool torch = false;
  bool counted = false;  // towards its device, or, where !on_device, towards an account of its own
  bool on_device = false;
  bool own_pool = false;  // from a stream-ordered pool that the program named
  bool live = false;
  SegmentOwner owner;
};

struct Reservation {
  uint64_t address = 0, size = 0;
  uint32_t live_blocks = 0;
  bool torch = false;
  bool implied = false;  // never seen reserved; stands for one mapping and goes with it
  bool live = false;
  SegmentOwner owner;
};

struct PhysicalHandle {
  uint64_t handle = 0, size = 0, stack = 0, time_ns = 0;
  uint32_t api = 0, refs = 0, maps = 0;
  uint32_t holds = 0;  // by multicast objects and arrays
  uint32_t slot = 0;
  uint32_t thread = 0;  // that made it
  uint32_t communicator = 0;
  uint8_t layer = 0, memory = 0;
  bool torch = false;
  bool awaits_map = false;  // will be mapped into a torch segment; counts from then on
  bool imported = false;
  bool counted = false;  // towards its device
  bool live = false;
};

struct Mapping {
  uint64_t size = 0;
  uint32_t physical = 0, reservation = 0;  // places
};

class CudaMemory {
 public:
  explicit CudaMemory(LayerFilter filter = LayerFilter::kAll) : filter_(filter) {}

  void Observe(LifetimeObserver* observer) { observer_ = observer; }  // LiveState::Observe

  // An event of the driver or the runtime. Returns the slot of the device that it touched.
  uint32_t Apply(const EventRow& row, const Lookahead& ahead, Accounts* accounts);

  // The allocation or reservation around an address. It becomes a torch segment if it was none.
  SegmentRef TakeAsSegment(uint64_t address, Accounts* accounts);
  // Forgets the segments, without a free of any.
  void DropSegments(Accounts* accounts);
  // The block was asked for on this stream, in this private pool.
  void AddBlock(SegmentRef segment, uint64_t stream, uint64_t pool) {
    if (segment.is_none()) return;
    ++BlockCount(segment);
    SegmentOwner& owner =
        segment.is_reservation() ? reservations_[segment.place()].owner : allocations_[segment.place()].owner;
    if (!owner.is_known) owner = {stream, pool, true};
  }
  const SegmentOwner& OwnerOf(SegmentRef segment) const {
    static constexpr SegmentOwner kNobody;
    if (segment.is_none()) return kNobody;
    return segment.is_reservation() ? reservations_[segment.place()].owner : allocations_[segment.place()].owner;
  }
  // `segment` may have gone since.
  void RemoveBlock(SegmentRef segment) {
    if (!segment.is_none() && BlockCount(segment) > 0) --BlockCount(segment);
  }

  // Segments that went with live blocks in them since the last call, as address ranges: their blocks' frees were lost.
  std::vector<std::pair<uint64_t, uint64_t>> TakeLostRanges() { return std::exchange(lost_ranges_, {}); }
  bool has_lost_ranges() const { return !lost_ranges_.empty(); }

  // Not left out by the layer filter.
  bool Matches(uint8_t layer) const;
  // Neither torch segment nor left out by the layer filter.
  bool InOther(const CudaAllocation& allocation) const {
    return allocation.counted && allocation.on_device && !allocation.torch && filter_ != LayerFilter::kTorch;
  }
  bool InOther(const PhysicalHandle& physical) const {
    return physical.counted && !physical.torch && filter_ != LayerFilter::kTorch;
  }
  // Of the graphs' memory of a device, where it counts as other.
  uint64_t GraphBytes(uint32_t slot) const;

  const Slab<CudaAllocation>& allocations() const { return allocations_; }
  const Slab<PhysicalHandle>& physicals() const { return physicals_; }
  const Slab<Reservation>& reservations() const { return reservations_; }
  const absl::btree_map<uint64_t, Mapping>& mappings() const { return mappings_; }
  size_t size() const { return allocations_.size() + physicals_.size() + mappings_.size(); }
  size_t places() const {
    return allocations_.places() + physicals_.places() + reservations_.places() + mappings_.size() +
           multicast_holds_.size() + array_holds_.size();
  }

 private:
  // Addresses of different sorts may be equal: a registered host range and an allocation, an array's handle and a
  // pointer.
  enum KeySpace : uint32_t { kPointers, kArrays, kRegistered, kImported, kGraphs, kKeySpaces };

  // What the last free of a thread removed, for the correction that may follow.
  struct Undo {
    KeySpace space = kPointers;
    bool was_known = false;
    CudaAllocation allocation;  // its address and slot also where it was not known
  };

  struct Pool {
    uint32_t slot = 0;
    uint8_t memory = 0;
  };

  // Physical memory that a multicast object or an array holds.
  struct Hold {
    uint64_t owner = 0;
    uint64_t size = 0;
    uint32_t physical = 0;  // place
  };

  struct Range {
    uint64_t end = 0;
    SegmentRef ref;
  };
  struct CachedRange {
    uint64_t start = 0, end = 0, generation = 0;
    SegmentRef ref;
  };
  static constexpr size_t kCachedRanges = 256;
  static constexpr uint64_t kCacheGranularityBits = 21;  // CUDA gives out memory in 2 MiB pieces

  uint32_t& BlockCount(SegmentRef segment) {
    return segment.is_reservation() ? reservations_[segment.place()].live_blocks
                                    : allocations_[segment.place()].live_blocks;
  }

  uint32_t Allocate(const EventRow& row, KeySpace space, const Lookahead& ahead, Accounts* accounts);
  uint32_t Free(const EventRow& row, KeySpace space, Accounts* accounts);
  uint32_t FreeUnknown(const EventRow& row, Accounts* accounts);
  uint32_t UndoFree(const EventRow& row, Accounts* accounts);
  uint32_t ResetDevice(const EventRow& row, Accounts* accounts);
  void Insert(const CudaAllocation& allocation, KeySpace space, Accounts* accounts);
  void Remove(uint32_t place, KeySpace space, Accounts* accounts);
  static void CountOverhead(const CudaAllocation& allocation, int64_t sign, DriverUse* driver);
  static bool HoldsBlocks(const CudaAllocation& allocation, KeySpace space);
  void Count(const CudaAllocation& allocation, int64_t sign, Accounts* accounts);
  void RemoveOverlaps(uint64_t start, uint64_t end, Accounts* accounts);

  // Memory of pools, graphs, arrays, multicast objects and other owners: cuda_memory_ranges.cc.
  void PlaceInPool(const EventRow& row, CudaAllocation* allocation) const;
  uint32_t SetGraphMemory(const EventRow& row, Accounts* accounts);
  bool EndExternalBuffer(uint64_t address, Accounts* accounts);
  uint32_t Bind(const EventRow& row, Accounts* accounts);
  uint32_t Unbind(const EventRow& row, const Lookahead& ahead, Accounts* accounts);
  uint32_t MapArray(const EventRow& row, Accounts* accounts);
  void Keep(const Hold& hold);
  // Lets go what `owner` holds on the device of `slot`, up to `bytes`.
  static constexpr uint32_t kAnySlot = UINT32_MAX;
  void LetGo(std::vector<Hold>* holds, uint64_t owner, uint32_t slot, uint64_t bytes, Accounts* accounts);
  uint32_t DestroyContext(const EventRow& row, const Lookahead& ahead, Accounts* accounts);

  uint32_t Reserve(const EventRow& row, Accounts* accounts);
  uint32_t Unreserve(const EventRow& row, const Lookahead& ahead, Accounts* accounts);
  uint32_t Create(const EventRow& row, const Lookahead& ahead, Accounts* accounts);
  uint32_t ImportHandle(const EventRow& row, Accounts* accounts);
  uint32_t Retain(const EventRow& row);
  uint32_t AddPhysical(const PhysicalHandle& physical, Accounts* accounts);
  void MakeTorch(uint32_t reservation, Accounts* accounts);
  bool GoesOnWithSegment(const Reservation& range) const;
  void EraseMapping(absl::btree_map<uint64_t, Mapping>::iterator it, Accounts* accounts);
  void EraseMappings(uint64_t start, uint64_t end, Accounts* accounts);
  uint32_t Release(const EventRow& row, const Lookahead& ahead, Accounts* accounts);
  uint32_t Map(const EventRow& row, const Lookahead& ahead, Accounts* accounts);
  uint32_t Unmap(const EventRow& row, const Lookahead& ahead, Accounts* accounts);
  uint32_t FindOrImplyReservation(uint64_t address, uint64_t size, Accounts* accounts);
  void CountPhysical(const PhysicalHandle& physical, int64_t sign, Accounts* accounts);
  void SetTorch(uint32_t physical, bool torch, Accounts* accounts);
  void DropIfUnused(uint32_t physical, Accounts* accounts);
  void RemoveReservation(uint32_t place, Accounts* accounts);

  SegmentRef FindRange(uint64_t address) const;
  void AddRange(uint64_t start, uint64_t size, SegmentRef ref);
  void RemoveRange(uint64_t start);
  // From the thread's next events: does the range, or the handle, become (part of) a torch segment?
  bool BecomesSegment(uint32_t thread, uint64_t start, uint64_t size, const Lookahead& ahead) const;
  bool HandleBecomesSegment(const EventRow& row, const Lookahead& ahead) const;
  // Is the handle released before the thread does anything but unmap and release? Does a correction of this event come
  // next?
  static bool ReleaseFollows(uint32_t thread, uint64_t handle, const Lookahead& ahead);
  static bool CorrectionFollows(const EventRow& row, const Lookahead& ahead);
  // External objects have numbers of their own.
  static uint64_t HandleKey(const EventRow& row) {
    return row.memory == trace::EXTERNAL ? row.handle ^ (uint64_t{1} << 63) : row.handle;
  }
  bool SeesTorch() const { return filter_ == LayerFilter::kAll || filter_ == LayerFilter::kTorch; }

  LayerFilter filter_;
  Slab<CudaAllocation> allocations_;
  std::array<AddressIndex, kKeySpaces> index_;
  Slab<Reservation> reservations_;
  Slab<PhysicalHandle> physicals_;
  absl::flat_hash_map<uint64_t, uint32_t>
      handle_index_;                             // while a reference is left: the driver may give the number out again
  absl::btree_map<uint64_t, Mapping> mappings_;  // by address
  absl::btree_map<uint64_t, Range> ranges_;      // where torch blocks may lie, by address; they do not overlap
  uint64_t range_generation_ = 1;
  std::array<CachedRange, kCachedRanges> range_cache_;
  absl::flat_hash_map<uint32_t, Undo> undo_;  // by thread
  absl::flat_hash_map<uint64_t, Pool> pools_;
  absl::flat_hash_set<uint64_t> graph_addresses_;  // that nodes of graphs allocate
  OpenCommunicators open_communicators_;
  std::vector<Hold> multicast_holds_, array_holds_;
  std::vector<std::pair<uint64_t, uint64_t>> lost_ranges_;
  uint64_t nameless_handles_ = 0;  // whose mapping ended and whose number nobody said; their releases are to come
  LifetimeObserver* observer_ = nullptr;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_STATE_CUDA_MEMORY_H_

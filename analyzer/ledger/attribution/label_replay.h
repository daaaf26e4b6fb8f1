// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LabelReplay: a replay of a whole trace in which every block of PyTorch's allocator collects, over its life, what the
// program's objects say of it. What a block is for often shows long after its allocation (a gradient is looked at when
// the optimizer steps), so a block is shown to the visitor when it ends, and those that never end when the trace does:
//
//      block   alloc ....... SAVED ........ TENSOR gradient ........ freed -> BlockEnded, with all of it
//
// One pass, and memory for what is alive. Not thread-safe.
//
//   LabelReplay replay(&reader, &stacks.objects(), end_ns);
//   replay.Run(&visitor);

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LABEL_REPLAY_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LABEL_REPLAY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "replay/state/lifetime_observer.h"
#include "replay/state/live_state.h"
#include "replay/state/replay.h"
#include "trace/object_table.h"
#include "trace/reader.h"

namespace gpumem {

// Of one element: "bfloat16" has 2; 0 where the type is not known.
uint64_t BytesOfType(absl::string_view dtype);

// Which of several roles counts: a block has the strongest that was ever said of it.
int Strength(TensorRole role);

// What is known of a block so far.
struct BlockLabel {
  uint64_t alloc_event = 0;      // number of its event
  uint64_t tensor_bytes = 0;     // of the tensors of `role` in it
  uint32_t tensor = 0;           // Tensor.id of the first of them
  uint32_t optimizer_steps = 0;  // that began before it
  uint32_t optimizer_ends = 0;   // that ended before it
  uint32_t turn = 0;             // blocks of its stack and size that came before it since the last of these began
  uint32_t name = 0;             // string id: what the program named it last
  TensorRole role = TensorRole::kNone;  // the strongest that was said
  bool saved = false;
};

// Memory of CUDA: outside of PyTorch's allocator, or a segment of it.
struct CudaLife {
  BlockLabel label;  // what was said of tensors in it, where a program's tensors lie outside of PyTorch's allocator
  uint64_t alloc_event = 0, size = 0, stack = 0;
  uint64_t time_ns = 0;  // of its event
  uint64_t address = 0;  // of a physical handle: the handle
  uint32_t slot = 0, name = 0, thread = 0, api = 0;
  uint8_t layer = 0, memory = 0;
};

class LabelReplay;

class LabelVisitor {
 public:
  virtual ~LabelVisitor() = default;
  // `end` is the number of the event that freed it; where `alive`, of the one behind the trace's last.
  virtual void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) = 0;
  virtual void CudaEnded(const CudaLife&, uint64_t /*end*/) {}     // outside of PyTorch's allocator
  virtual void HostEnded(const CudaLife&, uint64_t /*end*/) {}     // pinned or managed: of no device, slot 0
  virtual void DriverEnded(const CudaLife&, uint64_t /*end*/) {}   // contexts and modules: part of no total
  virtual void SegmentEnded(const CudaLife&, uint64_t /*end*/) {}  // counted as reserved by PyTorch
  virtual void BlockAllocated(const TorchBlock&) {}
  // Event number `index` took effect, on the totals of this slot. Not of labels.
  virtual void Applied(uint64_t /*index*/, uint32_t /*slot*/, const EventBatch&, size_t /*i*/) {}
  // What the file says between batches.
  virtual void TakeItems(const std::vector<BatchStream::Item>&) {}
  virtual void BlockSaved(const TorchBlock&) {}  // for the first time
  // Each time; `node` is the SAVED event's handle.
  virtual void SavedBy(const TorchBlock&, uint64_t /*node*/, uint32_t /*thread*/) {}
  // Before event number `index` takes effect, and once behind the last one (batch null).
  virtual void Before(uint64_t /*index*/, const EventBatch* /*batch*/, size_t /*i*/) {}
  // Where a tensor's data lies was said; bytes 0: nowhere.
  virtual void TensorPlaced(uint32_t /*tensor*/, uint64_t /*bytes*/) {}
};

class LabelReplay final : private LifetimeObserver, private ReplayVisitor {
 public:
  // The reader stands behind the section's header. Events later than `end_ns` are left out. `objects` has what the
  // whole trace says of them.
  LabelReplay(TraceReader* reader, const ObjectTable* objects, uint64_t end_ns)
      : objects_(objects), end_ns_(end_ns), replay_(reader, LayerFilter::kAll) {}

  void Run(LabelVisitor* visitor);

  // For a trace that is still being written (Replay::Follow): what there is now. Always with the same visitor.
  bool Follow(LabelVisitor* visitor, bool plays_newest, size_t most_batches);
  // Shows `visitor` what is alive as if the trace ended here: BlockEnded, CudaEnded, SegmentEnded.
  void ShowLive(LabelVisitor* visitor) const;
  const Replay& replay() const { return replay_; }

  const LiveState& state() const { return replay_.state(); }
  uint32_t optimizer_steps() const { return optimizer_steps_; }  // that began so far
  uint32_t optimizer_ends() const { return optimizer_ends_; }
  uint64_t unplaced() const { return unplaced_; }  // what was said of memory that is not a block

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  bool WantsDriver() const override { return true; }
  void OnAlloc(Held kind, uint32_t place) override;
  void OnFree(Held kind, uint32_t place) override;
  void End(Held kind, uint32_t place, bool alive);
  void Show(Held kind, uint32_t place, bool alive, LabelVisitor* visitor) const;
  friend class Replay;  // of which this is a visitor
  bool Take(const EventBatch& batch, size_t i, const EventBatch* following);
  void BeforeSnapshot();
  void AfterSnapshot(const std::vector<LiveSnapshotBatch>&) { BeginAll(); }
  void TakeItems(const std::vector<BatchStream::Item>& items) { visitor_->TakeItems(items); }
  void ApplyLabel(const EventBatch& batch, size_t i);
  void Name(uint64_t address, uint32_t name);
  void PlaceTensor(uint32_t tensor, uint64_t address, uint64_t bytes);
  void MoveTensor(uint64_t implementation, uint64_t address);
  BlockLabel* LabelAt(uint64_t address);
  uint32_t BlockAt(uint64_t address);  // place, or kNowhere
  // What was there already is there after the last event of its snapshot, before the first one that follows.
  uint64_t Born() const { return is_beginning_ && replay_.index() > 0 ? replay_.index() - 1 : replay_.index(); }
  // Each thing that lives, with the driver's pieces, as visit(Held, place).
  template <typename Visit>
  void ForEachPlace(Visit visit) const {
    state().ForEachPlace(visit);
    state().driver_pieces().ForEachPlace([&](uint32_t place, const DriverPiece&) { visit(Held::kDriver, place); });
  }
  void BeginAll();
  void EndAll();

  const ObjectTable* objects_;
  uint64_t end_ns_;
  Replay replay_;
  LabelVisitor* visitor_ = nullptr;
  bool is_beginning_ = false;
  std::vector<BlockLabel> labels_;                     // by place
  std::vector<BlockLabel> cuda_labels_[3];             // of allocations, physical handles, the driver's, by place
  absl::flat_hash_map<uint64_t, uint32_t> tensor_of_;  // by implementation: Tensor.id; 0: of several
  size_t known_tensors_ = 0;                           // that it was made of
  absl::btree_map<uint64_t, uint32_t> allocation_at_;  // by address
  absl::btree_map<uint64_t, uint32_t> block_at_;       // by address, where is_ordered_: a tensor began inside a block
  bool is_ordered_ = false;
  absl::flat_hash_map<uint32_t, uint64_t>
      tensor_alloc_;  // Tensor.id: `alloc_event` of the block that it was last counted in
  uint32_t optimizer_steps_ = 0, optimizer_ends_ = 0;
  struct Turns {
    uint32_t optimizer_steps = 0, count = 0;
  };
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, Turns> turns_;  // by stack and size
  uint64_t unplaced_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LABEL_REPLAY_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SurvivalPass: what each stack keeps alive from iteration to iteration. Visits one replay, with the loops that
// IterationCounter found, and takes the live bytes of every stack at every anchor. Memory counts from its `delay`th
// anchor on only: what an iteration hands to the next one (its loss, its batch) is gone by then, whatever its size. It
// counts as long after its end, so that what takes the place of something else is no dip: a full buffer is level.
//
//   anchors        |     |     |     |     |        delay 2
//   a leaked block    [==|=====|=====+#####+#####   counted at the third anchor and after
//   a replaced one    [==|=====|=]...+#####+.....   the next one counts where it ends to count
//   a loop variable     [=|===]                     never counted
//
// Memory is bounded by the stacks and the anchors at which they change; of very many iterations every n-th is an
// anchor. Not thread-safe.
//
//   SurvivalPass pass(&replay, loops, classifier, end_ns);
//   replay.Run(&pass);
//   for (const auto& [key, curve] : pass.curves()) curve.Values(pass.anchor_count());

#ifndef GPUMEM_ANALYZER_LEDGER_LEAKS_SURVIVAL_PASS_H_
#define GPUMEM_ANALYZER_LEDGER_LEAKS_SURVIVAL_PASS_H_

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/attribution/iteration_counter.h"
#include "ledger/attribution/label_replay.h"
#include "replay/owners.h"

namespace gpumem {

// What is known of the memory apart from its stack.
enum class SurvivorKind : uint8_t {
  kPlain,
  kSaved,    // by autograd, for a backward pass
  kModel,    // parameters, buffers, gradients, optimizer state
  kOutside,  // not PyTorch's
  kHost,     // pinned, of no device
  kManaged,  // managed, of no device
  kDriver,   // contexts, modules: what the driver took for them
};

struct SurvivorKey {
  uint32_t slot = 0;
  uint64_t stack = 0;
  SurvivorKind kind = SurvivorKind::kPlain;
  friend bool operator==(const SurvivorKey&, const SurvivorKey&) = default;
  friend bool operator<(const SurvivorKey& a, const SurvivorKey& b) {
    return std::tie(a.slot, a.stack, a.kind) < std::tie(b.slot, b.stack, b.kind);
  }
  template <typename H>
  friend H AbslHashValue(H h, const SurvivorKey& key) {
    return H::combine(std::move(h), key.slot, key.stack, key.kind);
  }
};

// Bytes and blocks at each anchor, kept as changes.
class SurvivalCurve {
 public:
  // Alive at the anchors [from, to).
  void Add(uint32_t from_anchor, uint32_t to_anchor, uint64_t bytes);
  struct Values {
    std::vector<int64_t> bytes, blocks;
  };
  void AddTo(Values* values) const;  // which have one element an anchor

 private:
  struct Change {
    uint32_t anchor = 0;
    int64_t bytes = 0, blocks = 0;
  };
  void Append(const Change& change);
  void Compact();
  std::vector<Change> changes_;
  size_t compacted_ = 0;
};

class SurvivalPass final : public LabelVisitor {
 public:
  // `loops`: in the order of the trace, not overlapping, at most one of a line.
  SurvivalPass(const LabelReplay* replay, const std::vector<Loop>& loops, const StackClassifier& classifier,
               uint64_t end_ns);

  void BlockSaved(const TorchBlock& block) override;
  void SavedBy(const TorchBlock& block, uint64_t node, uint32_t thread) override {
    owners_.SavedBy(block, node, thread);
  }
  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) override;
  void CudaEnded(const CudaLife& life, uint64_t end) override;
  void HostEnded(const CudaLife& life, uint64_t end) override;
  void DriverEnded(const CudaLife& life, uint64_t end) override;
  void Before(uint64_t index, const EventBatch* batch, size_t i) override;

  // What follows is of the replay's end. All anchors of all loops, in one row.
  size_t anchor_count() const { return anchors_.size(); }
  // The anchors of loop `i`: [first, second).
  std::pair<size_t, size_t> AnchorsOf(size_t loop) const;
  uint32_t DelayOf(size_t loop) const { return paces_[loop].delay; }
  uint64_t StrideOf(size_t loop) const { return paces_[loop].stride; }  // iterations an anchor
  uint64_t TimeOf(size_t anchor) const { return times_[anchor]; }
  // Iterations of loop `i` that were seen.
  uint64_t IterationsOf(size_t loop) const { return paces_[loop].iterations; }
  // Whether anything ends between the first iteration of loop `i` and the last one: what only makes lets go of nothing.
  bool LetsGo(size_t loop) const;
  // Whether loop `i` captures a CUDA graph in each iteration, all of them larger than the one before, or all smaller:
  // a server that prepares itself for a list of sizes, not one that captures for each request.
  bool PreparesGraphs(size_t loop) const;
  // Bytes that autograd saved in an average iteration of loop `i` on a device.
  double SavedPerIteration(size_t loop, uint32_t slot) const;
  struct Ended {
    uint32_t slot = 0;
    uint64_t stack = 0, bytes = 0;
    bool alive = false;  // when the replay ended
  };
  // What was there when the trace's last allocation was made: all that ended since then.
  const std::vector<Ended>& alive_at_last_allocation() const { return ended_; }
  const MeasureValues& TotalsAt(size_t anchor, uint32_t slot) const;
  // The most that PyTorch had allocated between the anchor before and this one.
  uint64_t HighestBefore(size_t anchor, uint32_t slot) const;
  const OwnerTally& owners() const { return owners_; }
  using Curves = absl::flat_hash_map<SurvivorKey, SurvivalCurve>;
  const Curves& curves() const { return curves_; }
  // Of memory that lives at anchors, but never for the delay: what is made anew in each iteration.
  const Curves& short_curves() const { return short_curves_; }
  // The bytes of `key` that were still there when their loop ended, at the anchors from which they count. Of a model
  // and its states (kModel) alone: where a larger one took the place of a smaller one, nothing stayed.
  std::vector<int64_t> StayedOf(const SurvivorKey& key) const;

 private:
  static constexpr uint64_t kMaxAnchors = 2048;  // of a loop
  struct Pace {
    uint64_t stride = 1;
    uint32_t delay = 1;
    uint64_t iterations = 0;
    size_t first_anchor = 0, end_anchor = 0;
    bool has_anchor = false;
    uint64_t first_end = UINT64_MAX;  // the event at which something ended first since then
    uint64_t graphs = 0;              // captured: how many, the last one, its bytes and those of the one before
    uint64_t graph = 0, graph_bytes = 0, bytes_before = 0;
    bool graphs_rise = true, graphs_fall = true;
    std::vector<uint64_t> saved;  // bytes, by slot, between the first iteration's end and the last one's
  };
  void NoteHighest();
  void NoteGraph(uint64_t capture, uint64_t bytes);
  void NoteStay(const SurvivorKey& key, size_t first, size_t last, uint64_t bytes);
  bool IsIteration(const Loop& loop, uint64_t index, bool ticks);
  void Live(const SurvivorKey& key, uint64_t alloc_event, uint64_t end, uint64_t bytes);

  const LabelReplay* replay_;
  const std::vector<Loop>& loops_;
  std::optional<LoopClock> clock_;
  std::vector<Pace> paces_;
  std::vector<uint64_t> anchors_, times_;           // events, and when
  std::vector<uint32_t> delays_;                    // by anchor
  std::vector<std::vector<MeasureValues>> totals_;  // by anchor, by slot
  std::vector<std::vector<uint64_t>> highest_;      // allocated bytes, by anchor, by slot
  std::vector<uint64_t> highest_now_;               // since the last anchor, by slot
  Curves curves_, short_curves_, stayed_;
  struct Stay {
    SurvivorKey key;
    uint32_t from = 0;
    uint64_t bytes = 0;
  };
  std::vector<Stay> may_stay_;  // what ended since the last anchor: it stayed if there is no other one in its loop
  OwnerTally owners_;
  std::vector<Ended> ended_;  // since the last allocation so far
  bool is_over_ = false;
  size_t loop_ = 0, next_step_ = 0;
  uint64_t last_ns_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LEAKS_SURVIVAL_PASS_H_

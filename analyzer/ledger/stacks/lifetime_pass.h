// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Lives: single allocations, with how long they were held. VisitLive shows what is alive at an instant; LifetimePass
// replays a section from its first event and shows every allocation once, at its end: then alone it is known as what it
// counted, and how long.
//
// What a file of a series was given as alive at its start begins then. Where a file is missing in between, what was
// alive before it ends there, and of what is given behind it only what began in the gap is shown.

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_LIFETIME_PASS_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_LIFETIME_PASS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/stacks/aggregated_stacks.h"
#include "replay/analyze.h"
#include "replay/state/lifetime_observer.h"
#include "replay/state/live_state.h"
#include "replay/state/replay.h"
#include "trace/reader.h"

namespace gpumem {

struct SingleAllocation {
  Held kind = Held::kBlock;
  uint64_t stack = 0, size = 0;
  uint64_t alloc_ns = 0;
  uint64_t ended_ns = 0;  // where !freed: the instant of the view
  uint32_t thread = 0, slot = 0, api = 0;
  bool freed = false;
  // Allocations of the same sort (blocks; CUDA's memory) by the same thread on the same device after it and before its
  // end. Only where freed, and where LifetimePass counts them.
  uint64_t others = 0;
};

using LifeVisitor = std::function<void(const SingleAllocation&)>;

// Everything of a device, or of the process, that `measure` counts and that is alive in `state`, as of `now_ns`.
void VisitLive(const LiveState& state, uint32_t slot, ViewMeasure measure, uint64_t now_ns, const LifeVisitor& visit);

// Used once. Not thread-safe.
class LifetimePass final : private LifetimeObserver, private ReplayVisitor {
 public:
  // `start`: before the first event, of a replay of the wanted layers. `to_ns`: absolute; events behind it do not
  // happen. `counts_others`: SingleAllocation::others is wanted.
  LifetimePass(const OpenTrace& trace, const Checkpoint& start, uint64_t to_ns, bool counts_others)
      : replay_(trace.reader, start), to_ns_(to_ns), counts_others_(counts_others) {}

  void Run(const std::vector<AggregatedDevice>& devices, const LifeVisitor& visit, const ProgressCallback& progress);

 private:
  // In place of a number: shown before a gap.
  static constexpr uint64_t kNotShown = UINT64_MAX;

  struct Ended {
    SingleAllocation life;
    uint64_t number = 0;
  };

  void OnAlloc(Held kind, uint32_t place) override;
  void OnFree(Held kind, uint32_t place) override;
  friend class Replay;  // of which this is a visitor
  bool Take(const EventBatch& batch, size_t i, const EventBatch* following);
  void BeforeSnapshot();
  void AfterSnapshot(const std::vector<LiveSnapshotBatch>&);
  void ApplyCuda(const EventBatch& batch, size_t i, const EventBatch* following);
  void BeginAll();
  std::optional<SingleAllocation> Read(Held kind, uint32_t place) const;
  std::optional<SingleAllocation> ReadNumbered(Held kind, uint32_t place) const;
  void Show(SingleAllocation life, uint64_t number, bool freed);
  void ShowAllAlive();
  uint64_t& Counter(const SingleAllocation& life);
  uint64_t NumberAt(Held kind, uint32_t place) const;

  const LiveState& state() const { return replay_.state(); }

  Replay replay_;
  ReplayWork work_;  // of looking for corrections
  uint64_t to_ns_;
  bool counts_others_;
  const LifeVisitor* visit_ = nullptr;
  std::vector<std::optional<ViewMeasure>> measure_;  // by slot; empty: not asked for
  std::optional<ViewMeasure> of_process_;            // in their place
  uint64_t clock_ns_ = 0;
  uint64_t gap_ns_ = 0;               // while what is alive behind a gap is taken: the time before it; else 0
  std::vector<uint64_t> numbers_[3];  // by kind and place: its ordinal within the counter
  absl::flat_hash_map<uint64_t, uint64_t> counters_;  // by sort, slot and thread
  uint64_t counter_key_ = UINT64_MAX;                 // of the last use
  uint64_t* counter_ = nullptr;
  // Frees that a correction will undo, by thread; and the one that is being undone.
  absl::flat_hash_map<uint32_t, Ended> undone_;
  std::optional<Ended>* awaits_correction_ = nullptr;
  std::optional<uint64_t> restored_number_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_LIFETIME_PASS_H_

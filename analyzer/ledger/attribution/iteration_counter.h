// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// IterationCounter: what a program does again and again: its training steps, or, where it takes none, a stack that
// allocates once in each iteration (a request of a server, a batch of an evaluation). Visits one replay, and then names
// the loops, in the order in which they run:
//
//      load | step step step step ... step | test batch, test batch, ... | save
//             loop 0: steps                  loop 1: a stack that allocates once a batch
//
// A stack's allocations are counted in equal stretches of all allocations, so that a loop is distinguished from what
// happens often, but only at one place. (Not of all events: a program that frees everything at its end has half of them
// there.) Segments that PyTorch's allocator takes from CUDA are no sign of an iteration: it takes them when its cache
// is short. Memory: 264 bytes a stack. Deterministic: no clock is read. Not thread-safe.
//
//   IterationCounter counter(0, &classifier);
//   replay.Run(&counter);
//   const std::vector<Loop> loops = counter.Loops();

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ITERATION_COUNTER_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ITERATION_COUNTER_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ledger/attribution/label_replay.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/attribution/step_log.h"

namespace gpumem {

// Something that repeats. An anchor is the state before an event at which an iteration ends.
struct Loop {
  enum class Kind : uint8_t { kSteps, kStack };
  Kind kind = Kind::kSteps;
  uint64_t stack = 0;                        // kStack: that allocates once an iteration
  bool is_torch = false;                     // kStack: blocks of PyTorch's, else CUDA memory
  uint64_t first_event = 0, last_event = 0;  // the stretch of the trace
  uint64_t iterations = 0;                   // kStack: about; stretches are counted whole
  std::vector<uint64_t> anchors;             // kSteps
  bool are_marked = false;                   // kSteps: the program marks its steps

  // kStack: whether the event is the one of `stack` that an iteration has.
  bool Ticks(uint64_t index, const EventBatch& batch, size_t i) const;
};

// Fewer say nothing about growth.
inline constexpr uint64_t kLeastIterations = 8;

class IterationCounter final : public LabelVisitor {
 public:
  // What was before `from_ns` is left out. `may_be_one_pass`: the trace may be of a single forward or backward pass,
  // whose layers repeat: then only stacks outside of both tell an iteration.
  IterationCounter(uint64_t from_ns, StackClassifier* classifier, bool may_be_one_pass = false)
      : from_ns_(from_ns), classifier_(classifier), may_be_one_pass_(may_be_one_pass), steps_(Measure::kAllocated) {}

  void BlockEnded(const TorchBlock&, const BlockLabel&, uint64_t, bool) override {}
  void CudaEnded(const CudaLife& life, uint64_t) override { outside_.insert(life.stack); }
  void Before(uint64_t index, const EventBatch* batch, size_t i) override;

  // After the replay.
  std::vector<Loop> Loops() const;
  // The stack that comes first in each call of the model: of those that most stacks of modules allocate as often as.
  // 0 where no module was called so often.
  uint64_t FirstStackOfCalls() const;

 private:
  static constexpr size_t kStretches = 64;
  using Counts = std::array<uint32_t, kStretches>;
  struct Counted {
    Counts counts{};
    uint64_t first = 0;  // allocation
  };

  using Source = std::pair<uint64_t, bool>;  // stack, and whether it allocates PyTorch's blocks

  void Count(Source source);
  Loop LoopOfSteps() const;
  bool FindStackLoop(uint64_t from_allocation, Loop* loop) const;

  uint64_t from_ns_;
  StackClassifier* classifier_;
  bool may_be_one_pass_;
  StepLog steps_;
  absl::flat_hash_map<Source, Counted> counts_;
  absl::flat_hash_set<uint64_t> outside_;  // stacks of CUDA memory that is not PyTorch's segments
  uint64_t allocations_a_stretch_ = 1;
  uint64_t allocations_ = 0;  // so far; the next two: before that moment
  uint64_t allocations_before_from_ = 0, allocations_before_last_step_ = 0;
  size_t steps_seen_ = 0;
  uint64_t events_ = 0;
  uint64_t from_event_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ITERATION_COUNTER_H_

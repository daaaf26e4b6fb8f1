// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// IterationCounter: what a program does again and again: its training steps, or, where it takes none, a line that it
// comes back to (a request of a server, a batch of an evaluation; call_loops.h). Visits one replay, and then names the
// loops, in the order in which they run:
//
//      load | step step step step ... step | test batch, test batch, ... | save
//             loop 0: steps                  loop 1: a line that is called once a batch
//
// Where no line is come back to all the time, the program has phases, and the last one that has a loop is looked at.
//
// How often a line is come back to is counted in equal stretches of all allocations, so that a loop is distinguished
// from what happens often, but only at one place. (Not of all events: a program that frees everything at its end has
// half of them there.) Memory: 264 bytes a stack, and as much a line. Deterministic: no clock is read. Not thread-safe.
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
#include "ledger/attribution/call_loops.h"
#include "ledger/attribution/label_replay.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/attribution/step_log.h"

namespace gpumem {

// Something that repeats. An anchor is the state before an event at which an iteration ends.
struct Loop {
  enum class Kind : uint8_t { kSteps, kLine };
  Kind kind = Kind::kSteps;
  uint64_t place = 0;                        // kLine: CallLoops' number of it; 0 where there is no loop
  bool is_torch = false;                     // kLine: told by PyTorch's blocks, else by CUDA memory
  uint64_t stack = 0;                        // kLine: the first allocation that came back to it
  uint64_t first_event = 0, last_event = 0;  // the stretch of the trace
  uint64_t iterations = 0;                   // kLine: about; stretches are counted whole
  std::vector<uint64_t> anchors;             // kSteps
  bool are_marked = false;                   // kSteps: the program marks its steps
};

// Tells in a later replay when the iterations of a line end. Not thread-safe.
class LoopClock {
 public:
  LoopClock(const Loop& loop, const StackClassifier& classifier)
      : place_(loop.place),
        is_torch_(loop.is_torch),
        first_event_(loop.first_event),
        last_event_(loop.last_event),
        calls_(classifier.stacks(), classifier.resolve()) {}

  // Of each event, in order: whether it begins an iteration.
  bool Ticks(uint64_t index, const EventBatch& batch, size_t i);

 private:
  uint64_t place_;
  bool is_torch_;
  uint64_t first_event_, last_event_;
  CallLoops calls_;
};

// Fewer say nothing about growth.
inline constexpr uint64_t kLeastIterations = 8;

class IterationCounter final : public LabelVisitor {
 public:
  // What was before `from_ns` is left out.
  IterationCounter(uint64_t from_ns, StackClassifier* classifier)
      : from_ns_(from_ns),
        classifier_(classifier),
        sources_{Source(*classifier), Source(*classifier)},
        steps_(Measure::kAllocated) {}

  void BlockEnded(const TorchBlock&, const BlockLabel&, uint64_t, bool) override {}
  void CudaEnded(const CudaLife&, uint64_t) override {}
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

  struct Line {
    CallLoops::Place place;
    uint64_t stack = 0;  // that came back first
    Counts counts{};
  };
  // PyTorch's blocks, or CUDA memory: segments, which PyTorch takes when its cache is short, are no sign of an
  // iteration where it has blocks.
  struct Source {
    explicit Source(const StackClassifier& classifier) : calls(classifier.stacks(), classifier.resolve()) {}
    CallLoops calls;
    absl::flat_hash_map<uint64_t, Line> lines;  // by place
  };
  struct Spread {
    uint64_t iterations = 0;
    bool is_even = false;  // over all that is looked at
  };

  void Count(uint64_t event, uint32_t thread, uint64_t stack, bool is_torch);
  void Widen();
  Loop LoopOfSteps() const;
  size_t LastStretch() const;
  Spread SpreadOf(const Counts& counts, size_t first, size_t last) const;
  bool FindLine(size_t first_stretch, uint64_t least, bool is_torch, Loop* loop) const;
  bool FindPhase(size_t first_stretch, Loop* loop) const;
  bool OnlySetsUp(size_t first_stretch) const;

  uint64_t from_ns_;
  StackClassifier* classifier_;
  std::array<Source, 2> sources_;  // CUDA memory, PyTorch's blocks
  StepLog steps_;
  absl::flat_hash_map<uint64_t, Counted> counts_;      // of PyTorch's blocks, by stack
  std::array<uint64_t, kStretches> stretch_events_{};  // the first allocation of each
  uint64_t allocations_a_stretch_ = 1;
  uint64_t allocations_ = 0;  // so far
  uint64_t allocations_before_from_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> ends_;  // of steps: event, and allocations before
  uint64_t events_ = 0;
  uint64_t from_event_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ITERATION_COUNTER_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CallLoops: which lines a program comes back to, told from the stacks of allocations in their order. A function that
// is back where its call's first allocation was made is called anew, or runs in a loop: either way its line is an
// iteration further, and so is the line that called it, where that was the first thing that its own function did, and
// so on.
//
//   main:60 > handle:8         a first allocation
//   main:60 > handle:9 > f:3   further on
//   main:60 > handle:8         back: handle:8 and main:60 are an iteration further
//
// A loop behind something else in the same call (the layers behind an embedding) is one of its own line alone. Modules
// of one class are different functions; where they are not known, a pass that repeats may have reached its next layer,
// and is not taken for another one. Each thread is followed by itself. Stacks whose callers were cut off, and those of
// backward passes, which have the lines of the forward pass, tell nothing. Memory: 32 bytes a frame of each stack, of
// up to 32 frames. Deterministic; not thread-safe; what it is given must outlive it.
//
//   CallLoops loops(&stacks, resolve);
//   loops.Allocated(thread, stack, [&](const CallLoops::Place& place) { ++iterations[place.number]; });

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_CALL_LOOPS_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_CALL_LOOPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "ledger/attribution/stack_classification.h"
#include "trace/stack_table.h"

namespace gpumem {

class CallLoops {
 public:
  // A line as called by the lines above it. Its number comes from them, so each replay of a trace has the same ones.
  struct Place {
    uint64_t number = 0;
    size_t depth = 0;        // lines above
    bool in_pass = false;    // in a forward or backward pass, or an optimizer's step
    bool in_set_up = false;  // in what makes or loads a model
  };

  CallLoops(const StackTable* stacks, FrameResolver resolve) : stacks_(stacks), resolve_(std::move(resolve)) {}

  // An allocation of `stack`. `further` receives each place that is an iteration further by it, innermost first.
  void Allocated(uint32_t thread, uint64_t stack, absl::FunctionRef<void(const Place&)> further);

 private:
  static constexpr size_t kMostFrames = 32;  // outermost ones
  struct Site {
    uint64_t place = 0, function = 0;
    uint64_t line = 0;  // where in its function
    bool in_pass = false, in_set_up = false;
  };
  struct Path {
    std::vector<Site> sites;     // outermost first
    bool knows_modules = false;  // which module's call a frame is
  };
  static const Path kNowhere;
  // Of a function that is being called: what it did first, and the stacks of its line since it came there.
  struct Level {
    uint64_t function = 0, line = 0;
    absl::InlinedVector<uint64_t, 4> stacks;
  };
  struct Thread {
    const Path* path = &kNowhere;  // of the last allocation
    std::vector<Level> levels;     // of its sites
  };

  const Site& SiteOf(uint32_t frame, const FrameInfo& info);
  const Path& PathOf(uint64_t stack);
  Path Make(uint64_t stack);

  const StackTable* stacks_;
  FrameResolver resolve_;
  absl::flat_hash_map<uint32_t, Site> sites_;                   // by frame, without what is above
  absl::flat_hash_map<uint64_t, std::unique_ptr<Path>> paths_;  // by stack; no sites: tells nothing
  absl::flat_hash_map<uint32_t, Thread> threads_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_CALL_LOOPS_H_

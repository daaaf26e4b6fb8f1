// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LeakFindings: which lines of a program keep more memory from iteration to iteration. Two replays of the trace: the
// first finds what repeats (ledger/attribution/iteration_counter.h), the second takes what each stack keeps alive at
// the end of each iteration (survival_pass.h). Stacks of one line of the user's code are one row, whose series is
// judged (growth_verdict.h). docs/leaks.md.
//
//   LeakFinder finder(&analysis, &stacks, resolve, place_of, {});
//   GPUMEM_RETURN_IF_ERROR(RunTwoPasses(analysis.path, stacks.objects(), {&finder}));
//   for (const LeakRow& row : finder.Take().devices[0].rows) row.status, row.place.site, row.bytes_per_iteration
//
// The same trace, and runs of the same program, give the same rows: no clock decides anything. Not thread-safe.

#ifndef GPUMEM_ANALYZER_LEDGER_LEAKS_LEAKS_H_
#define GPUMEM_ANALYZER_LEDGER_LEAKS_LEAKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ledger/attribution/stack_classification.h"
#include "ledger/leaks/growth_verdict.h"
#include "ledger/leaks/keeper.h"
#include "ledger/leaks/leak_place.h"
#include "ledger/leaks/suppressions.h"
#include "replay/analysis.h"
#include "replay/owners.h"
#include "trace/stack_table.h"

namespace gpumem {

// Of LeakDevice::device: memory of no device, which CUDA pinned or manages.
inline constexpr int kHostDevice = -1;

enum class LeakKind : uint8_t {
  kMemory,     // tensors
  kGraph,      // graphs that autograd keeps because something refers to their end
  kOutside,    // CUDA memory that is not PyTorch's
  kAllocator,  // PyTorch reserves more and more, though no more is allocated: fragmentation
  kHost,       // pinned memory, of no device: rows of device -1
  kManaged,    // managed memory, the same
  kDriver,     // what the driver takes for contexts and loaded modules
};

// "memory", "graph", "outside_pytorch", "allocator", "host", "managed", "driver".
absl::string_view LeakKindName(LeakKind kind);

struct LeakRow {
  LeakStatus status = LeakStatus::kFlat;
  LeakKind kind = LeakKind::kMemory;
  LeakPlace place;      // where it is allocated; kGraph: where most of it is
  UserFrame candidate;  // a line that may keep it, by its source alone; line 0 = none. It proves nothing
  std::string code;     // of that line
  uint64_t stack = 0;   // the one with the most bytes
  std::vector<uint64_t> stacks;
  size_t loop = 0;  // of LeakDevice::loops
  uint64_t grown_bytes = 0, grown_blocks = 0;
  double bytes_per_iteration = 0;
  uint64_t since_iteration = 0;  // from 1
  uint64_t since_ns = 0;
  uint64_t growths = 0;        // iterations in which it grew (of very many, groups of them)
  double confidence = 0;       // growth_verdict.h
  SeenOwners owners;           // of its blocks, when the recorder last looked
  bool is_replaced = false;    // made anew in each iteration, larger each time; it has no blocks that stay
  std::vector<int64_t> bytes;  // at the end of each iteration, or of each group of them

  // Adds another row of the same loop; `takes_place`: it is where most of both is allocated.
  void Absorb(LeakRow row, bool takes_place);
};

// What was looked at.
struct LeakLoop {
  bool are_steps = false;  // training steps, else iterations of `place`
  LeakPlace place;
  uint64_t iterations = 0;
  uint64_t from_ns = 0, to_ns = 0;
};

struct LeakDevice {
  int device = 0;
  std::vector<LeakRow> rows;  // growing first, then by bytes
  uint64_t suppressed = 0;    // rows that a suppression hides
};

struct LeakFindings {
  std::vector<LeakLoop> loops;  // empty: nothing repeats often enough to be judged
  std::vector<LeakDevice> devices;
  bool misses_events = false;  // of the trace: lost frees look like growth, and lost allocations hide it
  bool has_lives = true;       // false: an import does not tell which block a free was of, so nothing is judged
  bool AnyGrows() const;
};

struct LeakRequest {
  uint64_t from_ns = 0;  // of CLOCK_MONOTONIC: what began before is not judged
  uint64_t to_ns = UINT64_MAX;
  const Suppressions* suppressions = nullptr;
  SourceLines source;  // absent: lines that may keep memory are not looked for
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LEAKS_LEAKS_H_

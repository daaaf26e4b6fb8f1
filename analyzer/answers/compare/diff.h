// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// DiffRuns: what is different between two moments: of two runs, or of one. The one value behind `gpumemshim diff` as
// text and as JSON. Pure function of two RunFacts; never fails.
//
//   const Diff diff = DiffRuns(std::move(a), std::move(b));
//   diff.headline                        // "+3.10 GiB at the peak: activations of layers.*.mlp, 32 x 96 MiB -> ..."
//   for (const DiffRow& row : diff.lines) row.name, row.delta()

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_DIFF_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_DIFF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "answers/compare/matching.h"
#include "answers/compare/run_facts.h"

namespace gpumem {

// Blocks of one sort on both sides.
struct TwoUses {
  uint64_t a_bytes = 0, a_count = 0, b_bytes = 0, b_count = 0;
  uint64_t a_smallest = 0, a_largest = 0, b_smallest = 0, b_largest = 0;  // as asked for, a block

  int64_t delta() const { return static_cast<int64_t>(b_bytes) - static_cast<int64_t>(a_bytes); }
  void AddA(const LiveGroup& group);
  void AddB(const LiveGroup& group);
};

enum class RowChange : uint8_t { kSame, kNew, kGone, kLarger, kSmaller };
absl::string_view RowChangeName(RowChange change);  // "new"

struct DiffRow {
  std::string name;  // B's
  std::string was;   // A's name, where it is another one
  TwoUses uses;

  int64_t delta() const { return uses.delta(); }
  RowChange change() const;
};

// What a sentence is about.
enum class CauseKind : uint8_t {
  kNone,          // no difference
  kUnknown,       // nothing explains half of it
  kSeveral,       // two groups do together
  kGroup,         // one coherent group of blocks
  kLayers,        // layers of the model were added or removed
  kModelCopy,     // the model is there more often
  kDtype,         // parameters have another type
  kFrozen,        // parameters became trainable, or no longer are
  kOptimizer,     // another optimizer
  kInputs,        // inputs have another shape: batch, sequence length
  kRecompute,     // activations are recomputed in one of the two
  kAccumulation,  // gradients are kept across several backward passes
  kLeak,          // a line keeps more from step to step in one of the two
  kAllocator,     // PyTorch reserves more for as much: fragmentation
  kOutside,       // memory outside of PyTorch: contexts, libraries
};
absl::string_view CauseKindName(CauseKind kind);  // "layers"

struct Cause {
  CauseKind kind = CauseKind::kNone;
  std::string text;       // "activations of layers.*.mlp, 32 x 96 MiB -> 32 x 192 MiB"
  int64_t explained = 0;  // bytes of the difference
};

// A setting of the runs that is not the same.
struct SettingChange {
  std::string what, a, b;  // "command line", "version torch", "environment PYTORCH_CUDA_ALLOC_CONF", "input"
};

// One part of what a run and its plan differ in (plan_parts.h).
struct PlanPart {
  std::string name;  // "workspaces"
  uint64_t plan = 0, run = 0;
  std::string why;     // what the traces say of it: "inputs are [16, 1024] instead of [8, 1024]"; "" = nothing
  bool is_own = true;  // memory of the process: false for that of others
  bool known = true;   // in both
  int64_t delta() const { return static_cast<int64_t>(run) - static_cast<int64_t>(plan); }
};

struct Diff {
  RunFacts a, b;
  bool same_trace = false;          // two moments of one run
  std::string headline;             // one sentence
  std::vector<std::string> doubts;  // why the answer may be of a part only; the headline begins with what matters
  std::string subject;              // what was compared: "allocated", "reserved", "outside", "total"
  int64_t delta = 0;                // of the subject
  Cause cause;
  std::vector<SettingChange> settings;
  std::vector<DiffRow> series, categories, modules, lines, stacks;  // largest change first, but series
  std::vector<Renamed> renamed;
  std::vector<PlanPart> parts;  // where one of them is a plan of the other, largest first; empty else
};

Diff DiffRuns(RunFacts a, RunFacts b, bool same_trace);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_DIFF_H_

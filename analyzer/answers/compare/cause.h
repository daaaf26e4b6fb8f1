// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a difference comes from: the largest coherent group of blocks that explains at least half of it, or a change of
// the program that does (layers, types, inputs, optimizer, checkpointing, ...), else the two largest groups. Pure
// functions of a Diff whose rows are there.
//
//   ChooseSubject(&diff);
//   diff.cause = FindCause(diff);

#ifndef GPUMEM_ANALYZER_ANSWERS_COMPARE_CAUSE_H_
#define GPUMEM_ANALYZER_ANSWERS_COMPARE_CAUSE_H_

#include <string>
#include <vector>

#include "answers/compare/diff.h"

namespace gpumem {

// Of peaks each at its own moment: not what happened to be reserved when most was allocated.
bool ArePeaks(const Diff& diff);

// B minus A.
struct SeriesChanges {
  int64_t allocated = 0, reserved = 0, outside = 0;
  int64_t host = 0;  // pinned and managed memory, at most; of peaks alone
};
SeriesChanges ChangesOf(const Diff& diff);

// Which series the headline is about: allocated memory, unless what PyTorch reserves beyond it, or memory outside of
// PyTorch, or pinned and managed memory, changed more than twice as much.
void ChooseSubject(Diff* diff);

Cause FindCause(const Diff& diff);

// Whether a group counts for the subject.
bool IsOfSubject(const Diff& diff, const LiveGroup& group);

// The largest coherent group that explains at least half of the subject's difference; kSeveral or kUnknown where there
// is none.
Cause FindGroup(const Diff& diff);

// "; 52 parameters have other shapes: blocks.*.expand.weight is [3072, 768] instead of [1536, 384]": the one that
// changed most; "" where none did.
std::string OtherShapes(const Diff& diff);

// SeriesChanges of the program that explain at least half of it, best first.
std::vector<Cause> FindProgramChanges(const Diff& diff);

// "32 x 96 MiB -> 32 x 192 MiB"; "new, 12 x 3 MiB"; "1.2 GiB in 90 blocks -> 2.4 GiB in 90 blocks".
std::string UsesText(const TwoUses& uses);

// Sums of the subject's groups for which `takes` holds.
template <typename Predicate>
TwoUses SumOf(const Diff& diff, Predicate takes) {
  TwoUses uses;
  for (const LiveGroup& group : diff.a.groups) {
    if (IsOfSubject(diff, group) && takes(group)) uses.AddA(group);
  }
  for (const LiveGroup& group : diff.b.groups) {
    if (IsOfSubject(diff, group) && takes(group)) uses.AddB(group);
  }
  return uses;
}

// What share of the subject's difference this is; below 0 where it goes the other way.
double ShareOf(const Diff& diff, int64_t bytes);

// "+3.10 GiB", "-12 KiB", "+0 B".
std::string SignedChange(int64_t bytes);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_COMPARE_CAUSE_H_

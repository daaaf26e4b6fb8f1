// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The parts of a process's share of a device, named, each with what it rests on. Text and JSON print the same parts.
// docs/reconciliation.md explains them. Pure functions.
//
//   for (const BreakdownPart& part : PartsOf(breakdown, input)) ...   // their bytes + unexplained = the share

#ifndef GPUMEM_ANALYZER_ANSWERS_PARTS_BREAKDOWN_PARTS_H_
#define GPUMEM_ANALYZER_ANSWERS_PARTS_BREAKDOWN_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "answers/parts/library_parts.h"
#include "ledger/load/input.h"
#include "replay/analysis.h"

namespace gpumem {

enum class Basis : uint8_t {
  kMeasured,  // recorded call by call, or stated by the device at that very state
  kDerived,   // computed from what was measured, at this or another instant
  kUnknown,
};
absl::string_view BasisName(Basis basis);

struct BreakdownPart {
  std::string name;   // for JSON: "pytorch_allocated"; "library" for all libraries
  std::string label;  // for people: "PyTorch: allocated", "NCCL"
  uint64_t bytes = 0;
  Basis basis = Basis::kMeasured;
  LibraryPart asked;  // of the part "library": more about it

  // What it is, without numbers that change: the same at two instants.
  const std::string& Key() const { return asked.key.empty() ? name : asked.key; }
};

// In the order in which they are printed; parts of 0 bytes are left out, but for PyTorch's where it is used.
std::vector<BreakdownPart> PartsOf(const MemoryBreakdown& breakdown, const ReportInput& input);

// Of MemoryBreakdown::process.
Basis BasisOfProcess(const MemoryBreakdown& breakdown);

// What the unexplained part may be, in one sentence; "" where it is too small to matter, or not known at all.
std::string GuessAtRest(const MemoryBreakdown& breakdown, const Analysis& analysis);

// Why MemoryBreakdown::process is not known, in one sentence.
std::string WhyNotKnown(const MemoryBreakdown& breakdown, const Analysis& analysis);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_PARTS_BREAKDOWN_PARTS_H_

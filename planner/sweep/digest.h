// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What rows say together, before any layout: which runs stand out, which axes vary, and the sums by memory type and
// operation that pictures, files and the page all show. Pure functions; pointers are into the rows that were passed in.
//
//   const SweepRow* row = RowToExplain(rows);
//   for (const PartBytes& type : MemoryTypes(*row)) ...   // {"parameter", 497 MiB}, {"per_sample_gradient", ...}

#ifndef GPUMEM_PLANNER_SWEEP_DIGEST_H_
#define GPUMEM_PLANNER_SWEEP_DIGEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/sweep/row.h"

namespace gpumem::plan {

struct PartBytes {
  std::string name;
  uint64_t bytes = 0;
};

// What decides whether a run fits: all that the process needs, or what is known of it. 0 = not known.
uint64_t NeedOf(const SweepRow& row);

// It fits, or it was seen how much is missing.
bool IsPeakKnown(const SweepRow& row);

// Null where there is none. Largest and least are by allocated memory. `margin`: the share of its device that the
// largest must leave free.
const SweepRow* LargestThatFits(const std::vector<SweepRow>& rows, double margin = 0);
const SweepRow* LeastThatFits(const std::vector<SweepRow>& rows);
// The one that comes next: of those that do not fit so, the one that needs least.
const SweepRow* NextAfterLargest(const std::vector<SweepRow>& rows, double margin);
// The one whose parts are shown: the largest that fits, else the largest of which parts are known.
const SweepRow* RowToExplain(const std::vector<SweepRow>& rows);

// Names of all axes in the order of their first mention; of those that take at least two values.
std::vector<std::string> AxesOf(const std::vector<SweepRow>& rows);
std::vector<std::string> VariedAxes(const std::vector<SweepRow>& rows);

// "" where the row lacks the axis.
std::string ValueOn(const SweepRow& row, const std::string& axis);
// Values of an axis, each once: as numbers ascending where all are numbers, else in the order of the rows.
std::vector<std::string> ValuesOf(const std::vector<SweepRow>& rows, const std::string& axis);

// "seq_len=512, batch_size=8"; "the only configuration" without axes.
std::string ConfigurationText(const Configuration& values);
// Values of these axes alone: "512 · 8".
std::string ShortConfiguration(const SweepRow& row, const std::vector<std::string>& axes);

// The categories at the peak, gradients for each sample told apart ("per_sample_gradient"), largest first, without
// those that are 0.
std::vector<PartBytes> MemoryTypes(const SweepRow& row);

// All bytes that a component allocated, by "forward" (with the loss), "backward", "optimizer" (with zero_grad) and
// "other": in this order, zeros included.
std::vector<PartBytes> Operations(const std::map<std::string, uint64_t>& by_stage);
// Summed over all components of a row.
std::vector<PartBytes> Operations(const SweepRow& row);

uint64_t SumOf(const std::map<std::string, uint64_t>& bytes);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_DIGEST_H_

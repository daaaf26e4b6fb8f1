// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RankSummary: what is kept of one rank's trace while the other ranks' are read: some ten KB, whatever the size of the
// trace. Plain values; what is not known is empty, -1 or 0 as said.

#ifndef GPUMEM_ANALYZER_ANSWERS_RANKS_RANK_SUMMARY_H_
#define GPUMEM_ANALYZER_ANSWERS_RANKS_RANK_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "answers/compare/run_facts.h"
#include "answers/ranks/step_peaks.h"
#include "ledger/attribution/category.h"
#include "trace/object_table.h"

namespace gpumem {

// A parameter's name, and its elements in this rank.
struct HeldParameter {
  uint64_t name = 0;    // hash
  uint64_t folded = 0;  // hash of the name with "*" for numbers
  uint64_t elements = 0;

  friend auto operator<=>(const HeldParameter&, const HeldParameter&) = default;
};

// Which job a process says it is part of.
struct JobKey {
  std::string id;  // of the launcher, SLURM_JOB_ID and others; "" = none
  std::string program;
  int world_size = -1;

  friend auto operator<=>(const JobKey&, const JobKey&) = default;
};

struct TimedBytes {
  uint64_t realtime_ns = 0, bytes = 0;
};

// Memory at the peak of one sort.
struct PeakGroup {
  Category category = Category::kUnknown;
  std::string module, line;  // "blocks.3.mlp", "train.py:42 forward"; "" = not known
  uint64_t bytes = 0, blocks = 0;

  friend auto operator<=>(const PeakGroup&, const PeakGroup&) = default;
};

// On the process's own clock: each file of a series tells the time of day anew, some nanoseconds off.
struct StepEnd {
  uint64_t step = 0, monotonic_ns = 0;

  friend auto operator<=>(const StepEnd&, const StepEnd&) = default;
};

struct RankSummary {
  std::string file;
  int rank = -1;
  bool rank_of_name = false;  // the trace does not say its rank, its file's name does
  int local_rank = -1;
  std::string hostname;
  JobKey job;
  std::vector<RankRole> roles;  // each once; none is known where the program described no process group
  uint32_t pid = 0;
  uint64_t start_ticks = 0;              // of the process
  std::vector<uint32_t> ancestors;       // pids, parent first
  uint64_t start_realtime_ns = 0;        // of the recording; 0 = not known
  uint64_t last_realtime_ns = 0;         // of the last event; 0 = not known
  uint64_t events = 0, lost_events = 0;  // events 0 with events_before: not known
  uint64_t events_before = 0;            // that are in no number here: files of a series are gone
  std::string damage;                    // "" = none
  RunEnding ending = RunEnding::kUnknown;
  bool summary_only = false;  // the process kept no trace: GPUMEMSHIM_RANKS

  int device = -1;                        // -1 = no GPU memory
  std::map<int, uint64_t> other_devices;  // bytes that this process has on GPUs that are not its own
  Measure measure = Measure::kAllocated;  // by which ranks are compared: total where PyTorch did nothing
  uint64_t capacity = 0;
  uint64_t peak_allocated = 0, peak_reserved = 0, peak_total = 0, context = 0;
  CategoryBytes categories{};          // at the peak
  uint64_t communicator_bytes = 0;     // of NCCL at the peak, outside of PyTorch
  bool knows_peak_groups = false;      // summaries of older versions do not
  std::vector<PeakGroup> peak_groups;  // at the peak, largest first
  uint64_t other_peak_bytes = 0;       // of groups beyond those
  StepPeaks steps;
  bool steps_missed = false;              // the last complete ones are not known
  std::vector<StepEnd> step_ends;         // of complete steps, in order; in a file the last ones
  std::vector<HeldParameter> parameters;  // by name

  uint64_t oom_realtime_ns = 0;  // of the request that failed for good; 0 = none did
  uint64_t oom_step = 0, refused_bytes = 0, allocated_at_oom = 0;
  std::vector<TimedBytes> timeline;  // of the measure, at most some hundred points; a point is the highest of its time

  // Of the peaks. Whether frees were lost is not in a summary.
  PeakBound Bound() const { return lost_events > 0 || !damage.empty() ? PeakBound::kAtLeast : PeakBound::kExact; }
  uint64_t Peak() const { return measure == Measure::kAllocated ? peak_allocated : peak_total; }
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_RANKS_RANK_SUMMARY_H_

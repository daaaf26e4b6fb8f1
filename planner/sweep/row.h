// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SweepRow: what a sweep knows of one configuration once it ran, as plain values. commands/ fills it in; row_json keeps
// it between runs of a sweep; the files and pictures of a sweep are made of rows alone. Sizes are bytes, times seconds.

#ifndef GPUMEM_PLANNER_SWEEP_ROW_H_
#define GPUMEM_PLANNER_SWEEP_ROW_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gpumem::plan {

enum class RowState : uint8_t {
  kFits,
  kOutOfMemory,  // it needs more than the device has: on a GPU it died of that; peaks are what it wants, where known
  kFailed,       // for another reason
  kTimedOut,     // was ended when its time was up
  kSpins,        // waits for a value that no simulated kernel computes
  kNoCuda,       // ended well without a CUDA device
};

// "fits", "out_of_memory", "failed", "timed_out", "spins", "no_cuda".
const char* RowStateName(RowState state);

// Axes and values of a configuration, in the order of the specification: {"batch_size", "8"}.
using Configuration = std::vector<std::pair<std::string, std::string>>;

// A stretch of a run by what the program did: "model_load", "optimizer_setup", "forward". Same names are one row.
struct RowStage {
  std::string name;
  double seconds = 0;
  uint64_t peak_allocated = 0;  // most at once while it lasted
  int64_t growth_bytes = 0;     // allocated more at its end than at its start; less: negative. The sum of all stretches
  uint64_t count = 0;           // how often it was entered
};

// attention, mlp, embedding, norm, lora, ...: by the modules' names and types.
struct RowComponent {
  std::string name;
  std::map<std::string, uint64_t> at_peak;    // by category: "parameter", "gradient", "activation", ...
  std::map<std::string, uint64_t> allocated;  // by stage, the whole run: "forward", "backward", "optimizer_step", ...
};

struct RowPoint {
  double seconds = 0;  // since the first event
  uint64_t allocated = 0, reserved = 0, process = 0;
};

struct SweepRow {
  int number = 0;  // of the configuration in its sweep, from 1 on
  Configuration values;
  RowState state = RowState::kFits;
  std::string reason;  // why it does not fit or has no answer: one line; "" where it fits
  int exit_code = 0;   // 128 + signal
  double seconds = 0;  // of the run, with everything
  uint64_t steps = 0;  // of the optimizer
  std::string trace;   // file beside the results; "" where there is none
  // The most that the process had of one device. All 0 where the run used none.
  uint64_t peak_allocated = 0, peak_reserved = 0;
  uint64_t peak_process = 0;  // with the context and all that PyTorch does not know of, as nvidia-smi shows it
  uint64_t capacity = 0;      // of the device
  uint64_t lost_events = 0;
  uint64_t unknown_reads = 0;  // conditions, values and counts that the host read and nobody computed: they may decide
  std::map<std::string, uint64_t> categories;  // at the peak: "parameter", "gradient", "optimizer_state", ...
  std::map<std::string, uint64_t> parts;       // within these: "trainable", "frozen", "per_sample"
  std::map<std::string, uint64_t> tensors;     // the tensors alone, without what blocks are rounded up by: by category,
                                               // and "per_sample", which is in "gradient" too; where they are known
  std::vector<RowStage> stages;                // in the order in which they began
  std::vector<RowComponent> components;        // largest at the peak first
  std::vector<RowPoint> timeline;              // at most 240 points
};

// Whether it is known if it fits: not fitting is an answer.
inline bool HasAnswer(const SweepRow& row) {
  return row.state == RowState::kFits || row.state == RowState::kOutOfMemory;
}

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_ROW_H_

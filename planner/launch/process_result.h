// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What injected_script.py says of a process of a planned program: how many steps it made and why it ended.
//
//   std::vector<ProcessResult> processes = ReadProcessResults(folder);
//
// Failure: a file that cannot be read is left out; a process that died before it could say anything has none.

#ifndef GPUMEM_PLANNER_LAUNCH_PROCESS_RESULT_H_
#define GPUMEM_PLANNER_LAUNCH_PROCESS_RESULT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem::plan {

// What a planned program asked the libraries' stubs for, and how the answers are known: measured on such a GPU, or
// not (docs/workspaces.md).
//
//   WorkspaceUse use;
//   use.library = "cuDNN";
//   use.unknown = 12;   // operations that nobody measured: they count as 0
//
// Thread-safety: plain values.

// Of one library: how many different operations (shapes, types) are known how.
struct WorkspaceUse {
  std::string library;
  uint64_t set = 0;                         // by a SIMCUDA_..._WS variable
  uint64_t measured = 0;                    // on this device, with this version of the library
  uint64_t similar = 0;                     // on another of its capability, or with another version
  uint64_t lawful = 0;                      // by rules that were found in measured ones (simcuda/base/cudnn_law.h)
  uint64_t bounded = 0;                     // counted with their bound: --workspaces bound
  uint64_t unknown = 0;                     // counted as 0
  uint64_t without_bound = 0;               // of those: even a bound is not known
  uint64_t largest = 0, largest_bound = 0;  // bytes; the latter of those that rules give, or that count as 0
};

// A size that is not asked for by operations: the context's.
struct KnownSize {
  uint64_t bytes = 0;
  std::string known;  // "set", "measured", "similar"; "nothing": a guess
};

// Libraries with operations that count as 0.
std::vector<std::string> UnknownLibraries(const std::vector<WorkspaceUse>& uses);

// Whether counting with bounds would change anything.
bool HasBounds(const std::vector<WorkspaceUse>& uses);

// How they are known, in sentences that begin with a blank; "" where nothing was asked for.
std::string WorkspacesText(const std::vector<WorkspaceUse>& uses);

// What became of a change that the run was to be made with (changes.py).
struct ChangeReport {
  std::string name;              // "checkpointing"
  uint64_t applied = 0, of = 0;  // places
  std::string why;               // not to all of them
  std::string other_results;     // why the program computes other numbers with it; "" = the same, but for rounding
  uint64_t moved = 0;            // bytes a step, one way, where it transfers
  std::string batch_flag;        // of "look": "--batch"; "" = not found
  int64_t batch = 0;             // and its value
  std::vector<std::string> met;  // of "look": "conv2d", "diffusers": what some changes are for
};

struct ProcessResult {
  enum class Reason : uint8_t {
    kEnded,       // by itself
    kSteps,       // after as many steps as were asked for
    kStable,      // the peak did not grow any more
    kCapability,  // the installed PyTorch has no code for the device
  };
  int pid = 0, rank = 0;
  Reason reason = Reason::kEnded;
  uint64_t steps = 0;                      // of the optimizer
  uint64_t last_growth = 0;                // the step in which the peak grew last; 0 = none
  std::string torch;                       // version
  std::vector<std::string> built_for;      // where reason is kCapability: "sm_80", ...
  std::map<std::string, uint64_t> pinned;  // how often a value was pinned, by the text that asks for it
  uint64_t other_values = 0;               // values that were read, and given another way (RunRequest::Values::kOther)
  uint64_t other_integers = 0;             // of those: whole numbers
  uint64_t unknown_true = 0;               // conditions that were read and not known: as they were taken
  uint64_t unknown_false = 0;
  uint64_t unknown_values = 0;               // numbers that were read and not known
  uint64_t drawn_reads = 0;                  // of these: those that follow from random numbers
  uint64_t unknown_counts = 0;               // how much something found, where nobody knows
  uint64_t drawn_counts = 0;                 // and where it follows from random numbers
  std::map<std::string, uint64_t> compared;  // where such numbers were compared with others: "train.py:12#34"
  std::string compared_open;             // where one is compared, or looked up in a table, so that others may do else
  uint64_t routed = 0;                   // choices of experts that were made by chance
  uint64_t scaler_reads = 0;             // whether gradients are finite, asked by GradScaler
  bool steps_differ = false;             // in what they ask for, from the third on
  std::string failed_at, failed_by;      // of a program that an exception ended: "/x/train.py:12", "RuntimeError: ..."
  bool operator_refused = false;         // and no line of Python raised it
  bool table_refused = false;            // a list or a dictionary has no such place
  std::string values_failed;             // why nothing could be computed; "" = it was
  uint64_t event_queries = 0;            // whether an event is ready: with several streams
  std::vector<ChangeReport> changes;     // in the order of RunRequest::what_if
  std::vector<WorkspaceUse> workspaces;  // by library
  KnownSize context;                     // of CUDA
  uint64_t allocated_in_steps = 0;       // PyTorch's peaks up to the last step; what came after may be more
  uint64_t reserved_in_steps = 0;
  bool benchmark = false;  // torch.backends.cudnn.benchmark was on
  // Of CLOCK_MONOTONIC; 0 = not known.
  uint64_t cuda_ns = 0;        // when it used CUDA first
  uint64_t first_step_ns = 0;  // when the first step was over
  uint64_t ended_ns = 0;       // when it said this
};

// What one process wrote. DataLoss for anything else: the folder is the program's to write into as well.
absl::StatusOr<ProcessResult> ParseProcessResult(absl::string_view text);

// By rank, then process; files that have none are left out.
std::vector<ProcessResult> ReadProcessResults(const std::string& folder);

// The Python stacks of processes that ran into the deadline, as faulthandler wrote them; "" where there are none.
std::string ReadStuckStacks(const std::string& folder);

// The innermost line of the program's own in such stacks: "train.py:12 in main"; "" where nothing tells.
std::string StuckAt(const std::string& stacks);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_PROCESS_RESULT_H_

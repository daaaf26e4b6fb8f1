// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Forecast: all that `gpumemshim plan` answers, as plain values. commands/ fills it in, plan_answer says it. Sizes are
// bytes.

#ifndef GPUMEM_PLANNER_PREDICT_FORECAST_H_
#define GPUMEM_PLANNER_PREDICT_FORECAST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ledger/load/input.h"
#include "planner/launch/device_profile.h"
#include "planner/launch/process_result.h"
#include "replay/analysis.h"
#include "replay/analyze.h"
#include "symbols/symbolizer.h"

namespace gpumem::plan {

// Where a program on simulated CUDA read device memory: what came was not computed, so what it did next may be
// otherwise on a GPU. By operator and line.
//
//   HostReadCounts counts;
//   LoadTrace(options, {path}, console, [&](const OpenTrace& trace) { counts = CountHostReads(trace); });
//   std::vector<HostRead> reads = DescribeHostReads(counts, input);
//
// Pure functions, but for the reader's place.

struct HostReadCount {
  uint64_t count = 0, bytes = 0, largest = 0;
};
using HostReadCounts = std::map<uint64_t, HostReadCount>;  // by stack

// `last_alloc_ns`: when the last allocation succeeded; may be null.
HostReadCounts CountHostReads(const OpenTrace& trace, uint64_t* last_alloc_ns = nullptr);

enum class HostReadKind : uint8_t {
  kShape,   // how many were found decides the size of what comes next: nonzero, masks, unique
  kBranch,  // the truth of a tensor: if, while, assert
  kValue,   // one number: item(), float(), a loss that is printed
  kCopy,    // several: .cpu(), .tolist(), .numpy()
};

struct HostRead {
  HostReadKind kind = HostReadKind::kCopy;
  std::string operation;  // "aten::nonzero"; "" where nothing tells
  std::string site;       // the program's line
  uint64_t count = 0, bytes = 0;
};

// The kind that the functions of a stack, innermost first, tell; `largest` is of its reads, in bytes.
HostReadKind KindOfRead(const std::vector<ResolvedFrame>& frames, uint64_t largest, std::string* operation);

// Those that may decide what comes next first; then by count.
std::vector<HostRead> DescribeHostReads(const HostReadCounts& counts, const ReportInput& input);

// What `gpumemshim plan --explain` found out: changes that save memory, each measured by a run of the program with it,
// what they cost, and the cheapest ones that bring the program down to a goal. Plain values; sizes are bytes.
//
//   forecast.explanation->to_fit->text   // "checkpoint 5 of 12 blocks + chunked loss"

// What a change costs, the cheapest first.
enum class ReductionCost : uint8_t {
  kNothing,
  kTime,       // nobody measured how much
  kRecompute,  // something is computed twice
  kPieces,     // smaller pieces, which use a GPU less well
  kTransfers,  // to the host and back
  kRounding,   // other numbers
};

// One change, or several together.
struct Reduction {
  std::vector<std::string> changes;  // names of changes.py with their arguments, and "expandable_segments"
  std::string text;                  // "checkpoint 5 of 12 blocks + chunked loss"
  ReductionCost cost = ReductionCost::kNothing;
  std::string cost_text;         // "logits computed twice", "other results: ..."
  std::string other_results;     // why the program computes other numbers with it; "" = the same, but for rounding
  uint64_t applied = 0, of = 0;  // places, such as optimizers or blocks
  std::string why;               // not to all of them; or why there is no number
  std::optional<uint64_t> need;  // as RunPeaks::need; none: it did not apply, or failed
};

struct Explanation {
  uint64_t goal = 0;                    // what the device may give
  uint64_t need = 0;                    // of the program as it is
  uint64_t room = 0;                    // what is open in the forecast may add so much to each need
  std::vector<Reduction> ways;          // single changes that save something, the cheapest first
  std::vector<Reduction> without_use;   // applied, and save next to nothing by themselves
  std::vector<Reduction> not_possible;  // with the reason
  std::optional<Reduction> to_fit;      // the cheapest that were found to reach the goal; none where it is reached
  std::optional<Reduction> least;       // where nothing reaches it: all of them together
  int runs = 0, max_runs = 0;
  bool reached() const { return need + room <= goal; }
};

// The most that a process had of one device.
struct RunPeaks {
  int device = -1;  // -1: it had none
  uint64_t allocated = 0, reserved = 0;
  uint64_t process = 0;    // as nvidia-smi shows it: with the context and all that PyTorch does not know of
  uint64_t context = 0;    // in `process`: what no call asked for: the context, loaded code, rounding
  uint64_t elsewhere = 0;  // in `process`: asked for past PyTorch's allocator
  bool is_exact = true;    // false: events of the run are missing, and it held at least so much
  uint64_t together = 0;   // of the device that is fullest, with all processes on it and managed memory; 0 = `process`
  uint64_t need() const { return together != 0 ? together : process; }
};

// Of the device with the largest peak.
RunPeaks PeaksOf(const Analysis& analysis);
// Of one device.
RunPeaks PeaksOfDevice(const DeviceAnalysis& device);

enum class RunEnd : uint8_t { kStable, kSteps, kEnded, kTimedOut, kSpins, kFailed, kCapability };

// Ended before its time: what would have come may need more.
inline bool IsCutShort(RunEnd end) {
  return end == RunEnd::kTimedOut || end == RunEnd::kSpins || end == RunEnd::kFailed;
}

// What a process had of one device, and when.
struct DeviceHistory {
  RunPeaks peaks;                                   // `device`: the physical one, whatever CUDA_VISIBLE_DEVICES says
  uint64_t begin_ns = 0, end_ns = 0;                // of CLOCK_MONOTONIC: while it had any
  std::vector<std::pair<uint64_t, uint64_t>> uses;  // (from when on, bytes as nvidia-smi shows them), by time
};

// A process of the program.
struct PlannedProcess {
  std::string trace;  // "" where it was not kept
  ProcessResult reported;
  RunPeaks peaks;
  std::vector<DeviceHistory> devices;
  std::string name;              // its command line
  uint64_t managed = 0;          // most managed memory, which is in no device's share
  uint64_t pinned_host = 0;      // most pinned host memory, which nvidia-smi does not show
  uint64_t refused = 0;          // requests that failed for good
  uint64_t largest_refused = 0;  // bytes
  bool gave_up = false;          // it was refused, and allocated nothing after that
};

// A device that several processes have memory of.
struct SharedDevice {
  int device = 0;
  std::vector<size_t> processes;  // indices, largest first
  uint64_t in_time = 0;           // most of all of them together, as the run's clock had it
  uint64_t at_once = 0;           // were the largest moments of those that live at the same time one moment
};
std::vector<SharedDevice> SharedDevices(const std::vector<PlannedProcess>& processes);

// What a change would save.
struct WhatIf {
  std::string name;               // "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
  std::optional<RunPeaks> peaks;  // of a run with it; none: estimated
  std::optional<uint64_t> saves;  // where estimated
  std::string note;               // why there is no number, or what an estimate rests on
};

// A run of --vary.
struct VariedRun {
  std::vector<std::pair<std::string, int64_t>> values;  // by axis
  std::optional<RunPeaks> peaks;                        // none: it failed
  bool fits = false;                                    // with the margin
  std::string note;
  bool with_zero = false;  // with data that find nothing, where the forecast is for others
  uint64_t wanted = 0;     // bytes that the device must have to fit with the margin; 0 where it failed
};

// A further run that did not get through.
struct FailedRun {
  enum class Of : uint8_t { kData, kStreams, kWorkspaces, kDraws } of = Of::kData;
  std::string what;  // "where data find nothing"
  std::string how;   // "failed at train.py:12 (RuntimeError: ...)", "was ended when its time was up"
};

// Where the seconds of a plan went.
struct TimeSpent {
  std::optional<double> interpreter_s, imports_s;  // in before_cuda_s; none: these were the program's own
  double before_cuda_s = 0;                        // until the program used CUDA
  std::optional<double> first_step_s;              // from there to the end of its first step; none: it made none
  double later_s = 0;                              // what came after in that run
  double reading_s = 0;                            // of its traces
  int further_runs = 0;
  double further_s = 0;  // with the reading of their traces
  double total_s = 0;    // of all that, and of what the answer took
};

struct Forecast {
  std::vector<std::string> command;
  DeviceProfile device;
  int device_count = 1;
  int rank = 0, world_size = 0;  // which of how many ranks the process simulated; 0 = none
  std::string from_launcher;     // what would have started all of them: "torchrun"; "" = nothing in the command
  RunEnd end = RunEnd::kEnded;
  int exit_code = 0;     // of the program, where it failed: 128 + signal
  std::string output;    // the end of what it wrote, where it failed
  std::string stuck_at;  // where it was when its time was up
  double seconds = 0, timeout_s = 0;
  TimeSpent time;
  std::vector<PlannedProcess> processes;        // that used CUDA; the first has the largest peak
  std::vector<SharedDevice> shared;             // fullest first
  std::string data_dependent;                   // the policy of the run
  std::optional<RunPeaks> with_zero;            // a second run in which conditions found nothing
  std::vector<RunPeaks> with_other_draws;       // runs with other random numbers
  std::optional<RunPeaks> with_worst_routing;   // a run in which all tokens went to the same experts
  std::optional<RunPeaks> with_steps_left_out;  // a run in which GradScaler left all steps out
  std::vector<FailedRun> failed_runs;           // further runs that did not get through, so that their end is open
  std::optional<RunPeaks> with_late_events;     // a run in which events were ready only when somebody waited
  std::vector<RunPeaks> with_drawn_workspaces;  // runs in which some that rules give are at one of their ends
  std::optional<RunPeaks> with_bounds;          // a run in which workspaces that nobody measured are as large as can be
  std::optional<RunPeaks> with_other_values;    // of runs in which values that nobody computed were others: most,
  std::optional<RunPeaks> least_with_other_values;  // and least
  std::string other_values_failed;                  // why there is none although values decide: where they are read
  std::string other_values_ended;                   // and which of those runs did not come to its end; "" = all did
  uint64_t wanted = 0;                              // where it is more than there is: with no limit
  bool tight_is_open = false;                       // the run that would have told had no time left
  std::optional<bool> fits_when_tight;  // it wants, or may want, more than there is: whether it runs all the same
  std::optional<RunPeaks> when_tight;   // what it needed then, where it surely wants more
  uint64_t refused_when_tight = 0;      // requests that it was refused, and lived on
  uint64_t largest_refused = 0;         // bytes
  bool tight_with_room = false;         // with the most that is open left free
  std::vector<HostRead> reads;
  std::vector<WhatIf> what_ifs;
  std::optional<Explanation> explanation;  // --explain
  std::vector<VariedRun> varied;
  std::vector<std::pair<std::string, int64_t>> largest;  // that fits
  std::vector<std::pair<std::string, int64_t>>
      largest_with_zero;     // the same where data find nothing; empty = not asked
  bool searched = false;     // --vary was given
  double margin = 0;         // --margin: the share of the device that a value of --vary must leave free
  bool steps_given = false;  // --steps N: what comes later is not asked for

  bool answered() const {
    return end != RunEnd::kCapability && !processes.empty() && processes.front().peaks.device >= 0;
  }
  // What libraries asked for, of the process with the largest peak.
  const std::vector<WorkspaceUse>& workspaces() const { return processes.front().reported.workspaces; }
  // Of the process that needs most.
  const RunPeaks& peaks() const { return processes.front().peaks; }
  // The end of what the program wrote, where it did not come to its end.
  std::vector<std::string> last_lines() const;
  // By how much the processes' needs differ.
  uint64_t skew() const;
  uint64_t capacity() const { return device.memory_bytes(); }
  // The run of --vary that comes next after the largest that fits: the least larger value that was tried; nullptr =
  // none, or nothing fits.
  const VariedRun* next_larger() const;
  // What the fullest device must hold, all processes on it added up in time, with managed memory.
  uint64_t need() const { return peaks().need(); }
  // That device; nullptr where nothing was used.
  const SharedDevice* fullest() const { return shared.empty() ? nullptr : &shared.front(); }
  // Managed memory of the processes on it.
  uint64_t managed() const;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_FORECAST_H_

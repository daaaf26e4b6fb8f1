// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Replayer: runs the requests of a recorded trace through the allocator of an installed PyTorch, on simulated CUDA
// (replay_driver.py), once for each setting, several at a time, and reads from the traces of these runs what each
// needed.
//
//   Replayer replayer(tools, options, console);
//   GPUMEM_ASSIGN_OR_RETURN(ReplayAnswer answer, replayer.Run("run.gmtrace", {{"expandable_segments:True", 0}}));
//
// Not thread-safe. Its folder goes with it, and with it what was not kept. Failure: an error where the trace cannot be
// read, says nothing of PyTorch's allocator, or nothing could be started; a setting that PyTorch refuses is an answer.

#ifndef GPUMEM_PLANNER_ALLOCATOR_REPLAYER_H_
#define GPUMEM_PLANNER_ALLOCATOR_REPLAYER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "answers/report/what_if.h"
#include "base/console.h"
#include "ledger/load/load_trace.h"
#include "planner/allocator/replay_answer.h"
#include "planner/launch/simulated_run.h"

namespace gpumem::plan {

// One run: these settings on a GPU of this size.
struct ReplaySetting {
  std::string conf;
  uint64_t memory = 0;  // bytes; 0 = as recorded
  bool anew = true;     // what lived before the history is asked for anew; false: it lies where it lay
  ProgramChange change = ProgramChange::kNone;
};

struct ReplayOptions {
  std::string torch;  // a Python; "" = looked for
  int device = -1;    // that the answer is to be about; -1 = the one with the largest peak
  std::string keep;   // a folder for the traces of the replays; "" = none is kept
  double timeout_s = 600;
  // The history up to the request that PyTorch turned down for good then, and what would have been served in its place;
  // 0 = all of it.
  uint64_t until_failure_ns = 0;
};

class Replayer {
 public:
  Replayer(SimulationTools tools, ReplayOptions options, Console* console)
      : tools_(std::move(tools)), options_(std::move(options)), console_(console) {}
  ~Replayer();
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  // Reads the trace; needed once, first.
  absl::Status Load(const LoadRequest& request);
  const LoadedTrace& loaded() const { return *loaded_; }
  // PYTORCH_CUDA_ALLOC_CONF of the recorded program.
  const std::string& recorded_conf() const { return answer_.recorded_conf; }

  absl::StatusOr<ReplayAnswer> Run(const std::vector<ReplaySetting>& settings);

 private:
  absl::Status MakeFolder();
  void DescribeRecorded();
  absl::Status WriteFacts(const ReplaySetting& setting, const std::string& path) const;
  std::vector<uint64_t> StreamsInstead(ProgramChange change) const;
  absl::StatusOr<RunRequest> RequestOf(const ReplaySetting& setting, int number) const;
  ReplayedRun Read(const ReplaySetting& setting, const RunOutcome& outcome, const std::string& folder, int number,
                   SegmentChanges* segments);
  absl::Status RunAll(const std::vector<ReplaySetting>& settings, SegmentChanges* baseline);
  void Judge(const SegmentChanges& baseline);

  const SignalGuard guard_;  // else the folder would stay
  const SimulationTools tools_;
  const ReplayOptions options_;
  Console* const console_;
  std::string folder_, python_;
  std::unique_ptr<LoadedTrace> loaded_;
  ReplayAnswer answer_;
};

// What replay_driver.py wrote at its end. DataLoss where it is anything else; `run` is then half filled.
absl::Status ParseReplayResult(absl::string_view text, ReplayedRun* run);

// The settings that people try, each in place of what the recorded ones say of it.
std::vector<std::string> SettingsToTry(const std::string& recorded);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_REPLAYER_H_

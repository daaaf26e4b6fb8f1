// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TraceFollower: one process's trace while it grows. Everything in the file is read, unpacked and replayed once; a call
// of Poll takes what was appended since the one before, in time proportional to it. Files of a series are followed in
// their order. The process is never asked for anything.
//
//   file    |header|events|events|events|ev...          ^ = read so far; half a packet waits until it is whole
//                                       ^
//   state   totals, blocks, labels, steps, curve: as `gpumemshim report` and `gpumemshim at` have them after that event
//
// The newest batch of events waits for one poll, since what follows tells what an allocation became; where nothing
// follows until then it is taken as it is.
//
// Not thread-safe. Errors: of Open as of TraceReader::Open. A file that was cut, or replaced by another one, is an
// error of Poll (kAborted): open it again, the old numbers are of another program.
//
//   GPUMEM_ASSIGN_OR_RETURN(auto follower, TraceFollower::Open("run.gmtrace", {}));
//   GPUMEM_RETURN_IF_ERROR(follower->Poll(true));
//   const LiveProcess shown = follower->Frame();

#ifndef GPUMEM_ANALYZER_LIVE_TRACE_FOLLOWER_H_
#define GPUMEM_ANALYZER_LIVE_TRACE_FOLLOWER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "answers/report/stack_rows.h"
#include "ledger/attribution/attribution.h"
#include "ledger/attribution/index_pass.h"
#include "ledger/attribution/label_replay.h"
#include "ledger/attribution/module_table.h"
#include "ledger/attribution/rules.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/attribution/user_stages.h"
#include "live/live_frame.h"
#include "replay/analysis.h"
#include "replay/mark_log.h"
#include "replay/series.h"
#include "symbols/symbolizer.h"
#include "trace/reader.h"
#include "trace/stack_table.h"

namespace gpumem {

// LiveTally: what is counted while the events of a growing trace pass by, each once: series of the devices, steps,
// marks, failures, losses, what the devices said. The same classes count as in `gpumemshim report` and `gpumemshim at`.
// Not thread-safe; what it is given must outlive it.
//
//   LiveTally tally({1, Measure::kAllocated}, &replay, &reader.stacks(), &classifier);
//   replay.Follow(&tally, ...);

// The device that steps, categories and lines are of.
struct LiveFocus {
  uint32_t slot = 1;
  Measure measure = Measure::kAllocated;
  bool operator==(const LiveFocus&) const = default;
};

// What a device said of itself last.
struct DeviceStatement {
  std::optional<uint64_t> used, own;
  uint64_t total = 0;
  std::vector<OtherProcess> others;  // that it named, largest first
  uint64_t time_ns = 0;
  uint64_t reserved = 0;  // of PyTorch, as the replay had it then
};

class LiveTally final : public LabelVisitor {
 public:
  LiveTally(const LiveFocus& focus, const LabelReplay* replay, const StackTable* names, StackClassifier* classifier);
  LiveTally(const LiveTally&) = delete;
  LiveTally& operator=(const LiveTally&) = delete;

  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) override;
  void Before(uint64_t index, const EventBatch* batch, size_t i) override;
  void Applied(uint64_t index, uint32_t slot, const EventBatch& batch, size_t i) override;
  void TensorPlaced(uint32_t tensor, uint64_t bytes) override { index_.TensorPlaced(tensor, bytes); }
  void TakeItems(const std::vector<BatchStream::Item>& items) override;

  // Called once, in front of what follows the end of the program's own code.
  void OnProgramEnd(std::function<void()> call) { on_program_end_ = std::move(call); }

  const LiveFocus& focus() const { return focus_; }
  const IndexPass& index() const { return index_; }
  const MarkLog& marks() const { return marks_; }
  const LossCounts& losses() const { return losses_; }
  bool complete() const { return complete_; }
  uint64_t failed_requests() const { return torch_failures_ != 0 ? torch_failures_ : cuda_failures_; }
  uint64_t events() const { return events_; }
  uint64_t calls() const { return calls_; }  // the events that `gpumemshim report` counts
  uint64_t origin_ns() const { return origin_ns_; }
  uint64_t now_ns() const { return now_ns_; }
  // nullptr: no event named it.
  const DeviceSeries* series(uint32_t slot) const {
    return slot < series_.size() && series_[slot] ? &*series_[slot] : nullptr;
  }
  uint32_t slots() const { return static_cast<uint32_t>(series_.size()); }
  const DeviceStatement* statement(uint32_t slot) const;

 private:
  DeviceSeries& SeriesOf(uint32_t slot);
  void TakeCounters(const trace::Counters& counters);
  // What devices said comes before the events of the same pass, also those that are older: PyTorch's part is taken
  // again until they have passed by.
  void TakeReserved();

  const LiveFocus focus_;
  const LabelReplay* replay_;
  const StackTable* names_;
  MarkLog marks_;
  UserStages user_stages_;
  const AttributionRequest request_;
  IndexPass index_;
  std::vector<std::optional<DeviceSeries>> series_;  // by slot
  std::map<uint32_t, DeviceStatement> statements_;   // by slot
  uint64_t statements_ns_ = 0;                       // of the newest
  bool are_settled_ = true;
  LossCounts losses_;
  std::function<void()> on_program_end_;
  uint64_t last_index_ = 0;
  uint64_t events_ = 0, calls_ = 0, torch_failures_ = 0, cuda_failures_ = 0;
  uint64_t origin_ns_ = 0, now_ns_ = 0;
  bool has_origin_ = false;
  bool complete_ = false;
};

class TraceFollower {
 public:
  struct Options {
    SymbolizerOptions symbols;
    LiveFocus focus;
  };
  static absl::StatusOr<std::unique_ptr<TraceFollower>> Open(const std::string& path, const Options& options);
  TraceFollower(const TraceFollower&) = delete;
  TraceFollower& operator=(const TraceFollower&) = delete;

  // Reads on. `to_the_end`: all that is there, and the newest batch too, however long it takes; else for about a tenth
  // of a second. Aborted where the file is another one now.
  absl::Status Poll(bool to_the_end);
  // All that was there at the last Poll was read.
  bool is_through() const { return is_through_; }

  // What is shown. Names of frames are looked up here.
  LiveProcess Frame();
  // Without categories and lines, so without names: for whoever looks often and wants the forecast.
  LiveProcess BriefFrame() const;

  // What the focus should be by what was read: the device with the largest peak, and its blocks, or, where PyTorch did
  // nothing, all memory. To change it a trace must be opened again.
  LiveFocus WantedFocus() const;
  const LiveFocus& focus() const { return tally_.focus(); }
  // False where the process is known to have ended.
  bool is_running() const { return !tally_.complete() && reader_.process() != ProcessState::kEnded; }

  uint64_t bytes_read() const { return reader_.position(); }  // of the trace, each counted once
  const LabelReplay& replay() const { return replay_; }

 private:
  struct Detail {
    bool found = false;
    Moment moment;
    std::vector<StackUse> stacks;
    std::vector<MeasureValues> values;  // by slot
  };
  struct Lines {
    uint64_t time_ns = 0;
    std::map<std::string, uint64_t> bytes;  // by site
  };

  TraceFollower(std::string path, const Options& options, TraceReader reader);
  LiveProcess Begin() const;
  void LookUpNames();
  Detail TakeDetail();
  PlaceRoles Places(HeldByStack* held) const;
  LiveProcess::State StateNow() const;
  LiveDevice DeviceOf(uint32_t slot) const;
  void AddDevices(LiveProcess* frame) const;
  void AddLines(const Detail& detail, LiveProcess* frame);
  void AddSteps(LiveProcess* frame) const;
  void CompareWithEarlier(LiveProcess* frame);

  const std::string path_;
  const Options options_;
  const ProcessInfo process_;
  TraceReader reader_;
  Rules rules_;
  // Of the steps: by Python's names alone, so that it holds for stacks that are still to come.
  std::unique_ptr<Symbolizer> step_symbolizer_;
  std::unique_ptr<StackClassifier> step_classifier_;
  std::unique_ptr<Symbolizer> symbolizer_;  // of all names, made anew when there are more
  std::unique_ptr<StackClassifier> classifier_;
  size_t frames_named_ = 0;
  std::chrono::steady_clock::time_point named_until_;  // names are good enough until then
  LabelReplay replay_;
  LiveTally tally_;
  std::optional<Detail> at_program_end_;
  std::deque<Lines> earlier_;
  uint64_t events_at_last_poll_ = 0;
  bool is_through_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_TRACE_FOLLOWER_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FirstPass: one replay of a section from its first event to its last: totals, peaks, timelines, failures, losses, and
// checkpoints for the closer looks that follow. Analyze owns it. Not thread-safe.
//
//   FirstPass pass(options, &reader);
//   pass.Run(progress);

#ifndef GPUMEM_ANALYZER_REPLAY_FIRST_PASS_H_
#define GPUMEM_ANALYZER_REPLAY_FIRST_PASS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replay/analysis.h"
#include "replay/analyze.h"
#include "replay/counters.h"
#include "replay/existing_log.h"
#include "replay/fragmentation.h"
#include "replay/mark_log.h"
#include "replay/oom.h"
#include "replay/ratchet_log.h"
#include "replay/series.h"
#include "replay/state/batch_stream.h"
#include "replay/state/checkpoints.h"
#include "replay/state/live_state.h"
#include "replay/state/replay.h"
#include "replay/stream_log.h"
#include "trace/reader.h"

namespace gpumem {

class FirstPass : private ReplayVisitor {
 public:
  static constexpr uint64_t kNoEvent = UINT64_MAX;

  // The reader stands behind the section's header. It must outlive this.
  FirstPass(const AnalyzeOptions& options, TraceReader* reader);

  void Run(const ProgressCallback& progress);

  const LiveState& state() const { return replay_.state(); }  // at the end, or at `to`
  const Checkpoints& checkpoints() const { return checkpoints_; }
  const FragmentationHistory& fragmentation() const { return fragmentation_; }
  DeviceSeries* series(uint32_t slot) { return slot < series_.size() && series_[slot] ? &*series_[slot] : nullptr; }
  OomDetector& ooms() { return ooms_; }
  const StreamLog& streams() const { return streams_; }
  const RatchetLog& ratchets() const { return ratchets_; }
  const CounterLog& counters() const { return counters_; }
  MarkLog& marks() { return marks_; }
  const std::vector<ExistingAtStart>& existing() const { return existing_.starts(); }

  bool found_next_section() const { return found_next_section_; }
  bool complete() const { return complete_; }
  bool snapshot() const { return snapshot_; }
  const LossCounts& losses() const { return losses_; }
  const CuptiInfo& cupti() const { return cupti_; }  // without what only it saw
  uint64_t recovered_events() const { return recovered_events_; }
  EventCounts CountEvents() const;
  uint64_t live_snapshot_lost() const { return live_snapshot_lost_; }
  const std::vector<std::string>& disagreements() const { return disagreements_; }
  uint64_t origin_ns() const { return origin_ns_; }
  uint64_t end_ns() const { return end_ns_; }
  // The last event of the program's own code, and when that ended: kNoEvent where nothing says so, and where a window
  // ends before.
  uint64_t program_end_event() const { return to_ns_ < end_ns_ ? kNoEvent : program_end_event_; }
  uint64_t program_end_ns() const { return program_end_ns_; }
  // Bytes that PyTorch may reserve on a device, where the program limits it.
  const std::map<int, uint64_t>& torch_limits() const { return torch_limits_; }
  std::vector<Communicator> Communicators() const;
  // The window that options ask for, in absolute time, and its outermost events. kNoEvent: nothing lies before.
  uint64_t window_start_ns() const { return from_ns_; }
  uint64_t window_end_ns() const { return std::min(to_ns_, end_ns_); }
  uint64_t until_ns() const { return to_ns_; }  // the same where no event reaches it: what is asked for
  uint64_t last_event_before_window() const { return last_before_window_; }
  uint64_t last_event_in_window() const { return last_in_window_; }

 private:
  friend class Replay;  // of which this is a visitor
  bool Take(const EventBatch& batch, size_t i, const EventBatch* following);
  void AfterSnapshot(const std::vector<LiveSnapshotBatch>& live_snapshot);
  void BeginBatch();
  void TakeItems(const std::vector<BatchStream::Item>& items);
  void TakeCommunicator(const EventRow& row);
  void OpenWindow();
  void Measure(uint32_t slot);
  void SettleSamples(const EventBatch& batch, size_t i);
  DeviceSeries& SeriesOf(uint32_t slot);
  void Compare(const trace::Counters& counters);
  void TakeStated(const trace::Counters& counters);
  void SetOrigin(const EventBatch& batch);

  AnalyzeOptions options_;
  TraceReader* reader_;
  Replay replay_;
  Checkpoints checkpoints_;
  FragmentationHistory fragmentation_;
  std::vector<std::optional<DeviceSeries>> series_;  // by slot
  OomDetector ooms_;
  StreamLog streams_;
  RatchetLog ratchets_;
  CounterLog counters_;
  uint64_t last_change_ns_ = 0;  // of CUDA's memory
  MarkLog marks_;
  ExistingLog existing_;
  bool snapshot_ = false;
  std::array<std::array<uint64_t, 64>, 4> counts_{};  // by layer and kind; the last of each for what is not known
  LossCounts losses_;
  trace::Cupti cupti_said_;
  CuptiInfo cupti_;
  std::vector<std::string> disagreements_;
  uint64_t compared_ = 0;
  uint64_t recovered_events_ = 0;
  uint64_t live_snapshot_lost_ = 0;
  bool complete_ = false;
  bool found_next_section_ = false;
  bool has_origin_ = false;
  bool is_open_ = false;
  uint64_t origin_ns_ = 0, end_ns_ = 0, from_ns_ = 0, to_ns_ = 0;
  uint64_t clock_ns_ = 0;  // latest time so far: events of two threads may be out of order by a little
  uint64_t last_before_window_ = kNoEvent, last_in_window_ = kNoEvent;
  std::map<int, uint64_t> torch_limits_;
  std::map<uint32_t, Communicator> communicators_;
  uint64_t program_end_event_ = kNoEvent, program_end_ns_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_FIRST_PASS_H_

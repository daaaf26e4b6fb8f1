// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LiveTally: what is counted while the events of a growing trace pass by, each once: series of the devices, steps,
// marks, failures, losses, what the devices said. The same classes count as in `gpumemshim report` and `gpumemshim at`.
// Not thread-safe; what it is given must outlive it.
//
//   LiveTally tally({1, Measure::kAllocated}, &replay, &reader.stacks(), &classifier);
//   replay.Follow(&tally, ...);

#ifndef GPUMEM_ANALYZER_LIVE_LIVE_TALLY_H_
#define GPUMEM_ANALYZER_LIVE_LIVE_TALLY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "ledger/attribution/attribution.h"
#include "ledger/attribution/index_pass.h"
#include "ledger/attribution/label_replay.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/attribution/user_stages.h"
#include "replay/analysis.h"
#include "replay/mark_log.h"
#include "replay/series.h"
#include "trace/stack_table.h"

namespace gpumem {

// The device that steps, categories and lines are of.
struct LiveFocus {
  uint32_t slot = 1;
  Measure measure = Measure::kAllocated;
  bool operator==(const LiveFocus&) const = default;
};

// What a device said of itself last.
struct DeviceStatement {
  std::optional<uint64_t> used, own;
  uint64_t total = 0, others = 0;  // others: of the other processes that it named
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
  uint64_t events_ = 0, torch_failures_ = 0, cuda_failures_ = 0;
  uint64_t origin_ns_ = 0, now_ns_ = 0;
  bool has_origin_ = false;
  bool complete_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_LIVE_TALLY_H_

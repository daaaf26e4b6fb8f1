// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RowPass: the second replay of a trace as rows: every event with the totals behind it, every piece of memory when its
// life is over, with what it was for. Memory is bounded by what is alive. Not thread-safe; what it is given must
// outlive it.
//
//   RowPass pass(needs, &database);
//   replay.Run(&pass);
//   GPUMEM_RETURN_IF_ERROR(pass.Close());

#ifndef GPUMEM_ANALYZER_QUERY_ROW_PASS_H_
#define GPUMEM_ANALYZER_QUERY_ROW_PASS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "attribution/block_use.h"
#include "attribution/label_replay.h"
#include "attribution/step_log.h"
#include "query/row_texts.h"
#include "query/table_writer.h"

namespace gpumem {

class RowPass final : public LabelVisitor {
 public:
  struct Needs {
    BlockUses::Needs uses;
    const Analysis* analysis = nullptr;
    const StackTable* names = nullptr;
    const StepLog* steps = nullptr;
    const RowTexts* texts = nullptr;
    std::function<void(uint64_t events)> progress;  // now and then
  };
  RowPass(const Needs& needs, Database* database);

  void BlockAllocated(const TorchBlock& block) override { uses_.Allocated(block); }
  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) override;
  void CudaEnded(const CudaLife& life, uint64_t end) override;
  void SegmentEnded(const CudaLife& life, uint64_t end) override;
  void Before(uint64_t index, const EventBatch* batch, size_t i) override;

  absl::Status Close();
  // The last event of the program's own code.
  uint64_t end_event() const {
    const uint64_t behind = std::min(frozen_at_, end_of_events_);
    return behind == 0 ? 0 : behind - 1;
  }

 private:
  struct Highest {
    uint64_t allocated = 0, reserved = 0;
  };
  // What of an AttributedUse and a life makes a row of blocks.
  struct Life {
    template <typename Ended>  // TorchBlock or CudaLife
    Life(const Ended& ended, uint64_t alloc_event, uint64_t end_event)
        : born(alloc_event),
          time_ns(ended.time_ns),
          address(ended.address),
          size(ended.size),
          end(end_event),
          slot(ended.slot),
          thread(ended.thread),
          api(ended.api) {}
    uint64_t born = 0, time_ns = 0, address = 0, size = 0, requested = 0, end = 0;
    uint32_t slot = 0, thread = 0, api = 0;
    bool kept = false, saved = false;
  };

  bool IsAliveAtEnd(uint64_t end) const { return is_over_ && end >= end_of_events_; }
  void WriteEvent();
  void WriteTotals(uint32_t slot, bool has_device);
  void WriteBlock(const Life& life, const AttributedUse& use);
  void WriteBirthAndDeath(uint64_t born, uint64_t time_ns, uint64_t end, TableWriter* writer);
  void WriteStep(uint64_t event, TableWriter* writer) const;
  int64_t Since(uint64_t time_ns) const {
    return static_cast<int64_t>(time_ns) - static_cast<int64_t>(needs_.analysis->origin_ns);
  }
  uint32_t ThreadOf(uint32_t thread) const;

  Needs needs_;
  BlockUses uses_;
  TableWriter events_, blocks_, segments_;
  EventRow pending_;  // the event before, whose totals are not written yet
  uint64_t pending_index_ = 0;
  bool has_pending_ = false;
  uint64_t freed_bytes_ = 0;  // by that event, outside of PyTorch's blocks
  uint64_t program_end_ns_;
  uint64_t frozen_at_ = UINT64_MAX;  // the first event behind the end of the program's own code
  bool is_over_ = false;
  uint64_t end_of_events_ = 0;
  std::vector<Highest> highest_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_ROW_PASS_H_

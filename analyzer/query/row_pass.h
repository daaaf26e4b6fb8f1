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

#include <cstdint>
#include <functional>
#include <vector>

#include "ledger/attribution/life_pass.h"
#include "ledger/attribution/step_log.h"
#include "query/row_texts.h"
#include "query/table_writer.h"

namespace gpumem {

class RowPass final : public LifePass {
 public:
  struct Needs {
    LifePass::Needs lives;
    const StackTable* names = nullptr;
    const StepLog* steps = nullptr;
    const RowTexts* texts = nullptr;
    std::function<void(uint64_t events)> progress;  // now and then
  };
  RowPass(const Needs& needs, Database* database);

  void CudaEnded(const CudaLife& life, uint64_t end) override;
  void SegmentEnded(const CudaLife& life, uint64_t end) override;
  void Before(uint64_t index, const EventBatch* batch, size_t i) override;

  absl::Status Close();

 private:
  struct Highest {
    uint64_t allocated = 0, reserved = 0;
  };

  void Lived(const Life& life, const AttributedUse& use) override;
  void WriteEvent();
  void WriteTotals(uint32_t slot, bool has_device);
  void WriteSegment(const Life& life, const AttributedUse& use);
  void WriteBirthAndDeath(const Life& life, TableWriter* writer);
  void WriteStep(uint64_t event, TableWriter* writer) const;
  int64_t Since(uint64_t time_ns) const {
    return static_cast<int64_t>(time_ns) - static_cast<int64_t>(needs_.lives.analysis->origin_ns);
  }
  uint32_t ThreadOf(uint32_t thread) const;

  Needs needs_;
  TableWriter events_, blocks_, segments_;
  EventRow pending_;  // the event before, whose totals are not written yet
  uint64_t pending_index_ = 0;
  bool has_pending_ = false;
  uint64_t freed_bytes_ = 0;  // by that event, outside of PyTorch's blocks
  std::vector<Highest> highest_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_ROW_PASS_H_

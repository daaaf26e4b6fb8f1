// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// BlockCategories: what each of PyTorch's blocks was for, by the event that allocated it. A category is only known when
// a block's life is over, and an export writes its allocation first: so this goes before the export, as an analysis of
// two replays. Memory: one byte an event. Not thread-safe; the trace must outlive it.
//
//   BlockCategories categories(loaded);
//   GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {&categories}));
//   categories.Of(event_index)   // Category::kUnknown of what allocates no block

#ifndef GPUMEM_ANALYZER_EXPORTS_BLOCK_CATEGORIES_H_
#define GPUMEM_ANALYZER_EXPORTS_BLOCK_CATEGORIES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "attribution/block_use.h"
#include "attribution/index_pass.h"
#include "attribution/two_passes.h"
#include "loading/load_trace.h"

namespace gpumem {

class BlockCategories final : public TwoPassAnalysis, private LabelVisitor {
 public:
  explicit BlockCategories(LoadedTrace* loaded);
  BlockCategories(const BlockCategories&) = delete;
  BlockCategories& operator=(const BlockCategories&) = delete;

  uint64_t FirstEnd() const override { return loaded_->analysis.end_ns; }
  LabelVisitor* BeginFirst(const LabelReplay& replay) override;
  void EndFirst(const LabelReplay&) override {}
  // What is alive when the program's own code ends was kept.
  uint64_t SecondEnd() const override { return EndOfProgram(loaded_->analysis); }
  LabelVisitor* BeginSecond(const LabelReplay& replay) override;
  void EndSecond() override { uses_.reset(); }

  Category Of(uint64_t alloc_event) const {
    return alloc_event < by_event_.size() ? by_event_[alloc_event] : Category::kUnknown;
  }

 private:
  void Before(uint64_t index, const EventBatch* batch, size_t i) override { uses_->Before(index, batch, i); }
  void BlockAllocated(const TorchBlock& block) override { uses_->Allocated(block); }
  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) override;

  LoadedTrace* loaded_;
  AttributionRequest request_;
  Rules rules_;
  StackClassifier classifier_;
  ModuleTable modules_;
  UserStages user_stages_;
  std::optional<IndexPass> index_pass_;
  std::optional<BlockUses> uses_;
  std::vector<Category> by_event_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORTS_BLOCK_CATEGORIES_H_

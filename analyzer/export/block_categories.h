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

#ifndef GPUMEM_ANALYZER_EXPORT_BLOCK_CATEGORIES_H_
#define GPUMEM_ANALYZER_EXPORT_BLOCK_CATEGORIES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ledger/stacks/lives.h"

namespace gpumem {

class BlockCategories final : public LivesAnalysis {
 public:
  explicit BlockCategories(LoadedTrace* loaded);
  ~BlockCategories() override;

  void EndFirst(const LabelReplay&) override {}
  // What is alive when the program's own code ends was kept.
  uint64_t SecondEnd() const override { return EndOfProgram(loaded()->analysis); }
  void EndSecond() override;

  Category Of(uint64_t alloc_event) const {
    return alloc_event < by_event_.size() ? by_event_[alloc_event] : Category::kUnknown;
  }

 private:
  class Pass;

  LabelVisitor* First(IndexPass* index_pass, const LabelReplay&) override { return index_pass; }
  LabelVisitor* Second(const LifePass::Needs& needs) override;

  std::unique_ptr<Pass> pass_;
  std::vector<Category> by_event_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_EXPORT_BLOCK_CATEGORIES_H_

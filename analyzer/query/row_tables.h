// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RowTables: fills events, blocks, segments, steps, stacks and frames of an index by two replays, with the same passes
// that every other answer about categories and steps stands on. Not thread-safe; what it is given must outlive it.
//
//   RowTables tables(loaded, &database);
//   GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {&tables}));
//   GPUMEM_RETURN_IF_ERROR(tables.Finish());

#ifndef GPUMEM_ANALYZER_QUERY_ROW_TABLES_H_
#define GPUMEM_ANALYZER_QUERY_ROW_TABLES_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "ledger/stacks/lives.h"
#include "query/row_pass.h"
#include "query/row_texts.h"

namespace gpumem {

class RowTables final : public LivesAnalysis {
 public:
  // How far: event `done` of pass 1 or 2.
  using Progress = std::function<void(int pass, uint64_t done)>;

  RowTables(LoadedTrace* loaded, Database* database, Progress progress);

  void EndFirst(const LabelReplay& replay) override;
  void EndSecond() override;

  // Once, after both replays: the tables that need no replay of their own, and the first error of any.
  absl::Status Finish();
  uint64_t end_event() const { return row_pass_->end_event(); }  // RowPass

 private:
  class FirstPass;

  LabelVisitor* First(IndexPass* index_pass, const LabelReplay& replay) override;
  LabelVisitor* Second(const LifePass::Needs& needs) override;
  absl::Status WriteSteps();
  absl::Status WriteStacks();

  Database* database_;
  Progress progress_;
  RowTexts texts_;
  std::unique_ptr<LabelVisitor> first_pass_;
  std::optional<RowPass> row_pass_;
  absl::Status status_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_ROW_TABLES_H_

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

#include "attribution/index_pass.h"
#include "attribution/two_passes.h"
#include "query/row_pass.h"
#include "query/row_texts.h"

namespace gpumem {

class RowTables final : public TwoPassAnalysis {
 public:
  // How far: event `done` of pass 1 or 2.
  using Progress = std::function<void(int pass, uint64_t done)>;

  RowTables(LoadedTrace* loaded, Database* database, Progress progress);
  RowTables(const RowTables&) = delete;
  RowTables& operator=(const RowTables&) = delete;

  uint64_t FirstEnd() const override { return loaded_->analysis.end_ns; }
  LabelVisitor* BeginFirst(const LabelReplay& replay) override;
  void EndFirst(const LabelReplay& replay) override;
  uint64_t SecondEnd() const override { return loaded_->analysis.end_ns; }
  LabelVisitor* BeginSecond(const LabelReplay& replay) override;
  void EndSecond() override;

  // Once, after both replays: the tables that need no replay of their own, and the first error of any.
  absl::Status Finish();
  uint64_t end_event() const { return row_pass_->end_event(); }  // RowPass

 private:
  class FirstPass;

  absl::Status WriteSteps();
  absl::Status WriteStacks();

  LoadedTrace* loaded_;
  Database* database_;
  Progress progress_;
  AttributionRequest request_;
  Rules rules_;
  StackClassifier classifier_;
  ModuleTable modules_;
  UserStages user_stages_;
  RowTexts texts_;
  std::optional<IndexPass> index_pass_;
  std::unique_ptr<LabelVisitor> first_pass_;
  std::optional<RowPass> row_pass_;
  absl::Status status_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_ROW_TABLES_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/row_tables.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "ledger/load/input.h"
#include "ledger/stacks/stack_view.h"
#include "query/schema.h"
#include "replay/state/accounts.h"
#include "symbols/stack_hash.h"

namespace gpumem {
// The index pass of attribution, and beside it what the columns of the second pass can say.
class RowTables::FirstPass final : public LabelVisitor {
 public:
  FirstPass(IndexPass* index_pass, RowTexts* texts, UserStages* user_stages, const Progress* progress)
      : index_pass_(index_pass), texts_(texts), user_stages_(user_stages), progress_(progress) {}

  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) override {
    Saw(block.stack, block.api, block.time_ns, block.thread);
    index_pass_->BlockEnded(block, label, end, alive);
  }
  void CudaEnded(const CudaLife& life, uint64_t) override { Saw(life.stack, life.api, life.time_ns, life.thread); }
  void SegmentEnded(const CudaLife& life, uint64_t) override { Saw(life.stack, life.api, life.time_ns, life.thread); }
  void TensorPlaced(uint32_t tensor, uint64_t bytes) override { index_pass_->TensorPlaced(tensor, bytes); }

  void Before(uint64_t index, const EventBatch* batch, size_t i) override {
    index_pass_->Before(index, batch, i);
    if (batch == nullptr) return;
    texts_->SawStack(batch->stack(i));
    texts_->SawApi(batch->api(i));
    if (*progress_ && (index & 0x3ffff) == 0) (*progress_)(1, index);
  }

 private:
  void Saw(uint64_t stack, uint32_t api, uint64_t time_ns, uint32_t thread) {
    texts_->SawStack(stack);
    texts_->SawApi(api);
    user_stages_->Of(time_ns, thread);
  }

  IndexPass* index_pass_;
  RowTexts* texts_;
  UserStages* user_stages_;
  const Progress* progress_;
};

RowTables::RowTables(LoadedTrace* loaded, Database* database, Progress progress)
    : LivesAnalysis(loaded),
      database_(database),
      progress_(std::move(progress)),
      texts_(loaded, classifier(), modules()) {}

LabelVisitor* RowTables::First(IndexPass* index_pass, const LabelReplay&) {
  first_pass_ = std::make_unique<FirstPass>(index_pass, &texts_, user_stages(), &progress_);
  return first_pass_.get();
}

void RowTables::EndFirst(const LabelReplay&) { texts_.Finish(user_stages()->names()); }

LabelVisitor* RowTables::Second(const LifePass::Needs& lives) {
  RowPass::Needs needs;
  needs.lives = lives;
  needs.names = &loaded()->stacks;
  needs.steps = &steps();
  needs.texts = &texts_;
  if (progress_) needs.progress = [this](uint64_t done) { progress_(2, done); };
  row_pass_.emplace(needs, database_);
  return &*row_pass_;
}

void RowTables::EndSecond() { status_ = row_pass_->Close(); }

absl::Status RowTables::Finish() {
  GPUMEM_RETURN_IF_ERROR(status_);
  GPUMEM_RETURN_IF_ERROR(WriteSteps());
  return WriteStacks();
}

absl::Status RowTables::WriteSteps() {
  TableWriter writer(database_, StepsTable());
  const auto since = [&](uint64_t time_ns) { return loaded()->input.Since(time_ns); };
  for (const Step& step : steps().steps()) {
    writer.UInt(step.number).Bool(step.complete).Int(device());
    writer.UInt(since(step.start.time_ns)).UInt(since(step.peak.time_ns)).UInt(since(step.end.time_ns));
    writer.UInt(step.start.event_index).UInt(step.peak.event_index).UInt(step.end.event_index);
    writer.UInt(step.start.values.allocated).UInt(step.peak.values.allocated).UInt(step.peak.values.reserved);
    writer.UInt(step.peak.values.total).UInt(step.end.values.allocated).Int(step.GrowthBytes());
    writer.UInt(step.backward_passes).IntOrNull(step.trainer_step).IntOrNull(step.epoch);
    writer.EndRow();
  }
  return writer.Close();
}

absl::Status RowTables::WriteStacks() {
  TableWriter stacks(database_, StacksTable()), frames(database_, FramesTable());
  for (const uint64_t stack : texts_.Stacks()) {
    const std::vector<ResolvedFrame> resolved = loaded()->source->Frames(stack);
    const StackView view = ViewStack(resolved, "", loaded()->analysis.process.working_directory);
    const StackClassification classification = classifier()->Of(stack);
    stacks.UInt(stack).UInt(StackHash(loaded()->stacks, stack)).TextOrNull(view.site).TextOrNull(view.through);
    stacks.TextOrNull(absl::StrJoin(view.callers, " < ")).UInt(resolved.size());
    stacks.Text(StageName(classification.stage));
    stacks.TextOrNull(ModuleText(modules()->row(modules()->RowOf(classification.module)))).EndRow();
    for (size_t depth = 0; depth < resolved.size(); ++depth) {
      const ResolvedFrame& frame = resolved[depth];
      frames.UInt(stack).UInt(depth).Text(frame.short_function).TextOrNull(frame.file).IntOrNull(frame.line);
      frames.TextOrNull(frame.module).Bool(frame.python).Bool(frame.inlined).EndRow();
    }
  }
  GPUMEM_RETURN_IF_ERROR(stacks.Close());
  return frames.Close();
}

}  // namespace gpumem

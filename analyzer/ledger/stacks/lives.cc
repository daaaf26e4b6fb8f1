// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/lives.h"

#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "ledger/load/input.h"
#include "ledger/saved/saved_answers.h"
#include "replay/state/accounts.h"
#include "trace/event_batch.h"

namespace gpumem {
namespace {

AttributionRequest RequestOf(const Analysis& analysis) {
  AttributionRequest request;
  request.steps = true;
  if (const DeviceAnalysis* const device = LargestDevice(analysis)) {
    request.device = device->device;
    request.measure = DefaultMeasure(*device);
  }
  return request;
}

constexpr uint64_t kEventsPerProgress = 1u << 18;

// The index pass of attribution, and the totals after each event.
class TotalsVisitor final : public LabelVisitor {
 public:
  TotalsVisitor(IndexPass* index_pass, const LabelReplay* replay, LifeReceiver* receiver,
                const LoadedLives::Progress* progress)
      : index_pass_(index_pass), replay_(replay), receiver_(receiver), progress_(progress) {}

  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) override {
    index_pass_->BlockEnded(block, label, end, alive);
  }
  void TensorPlaced(uint32_t tensor, uint64_t bytes) override { index_pass_->TensorPlaced(tensor, bytes); }

  void Before(uint64_t index, const EventBatch* batch, size_t i) override {
    index_pass_->Before(index, batch, i);
    if (slot_ != 0 && slot_ < replay_->state().slots())
      receiver_->Totals(event_, time_ns_, slot_, replay_->state().values(slot_));
    events_ = index;
    if (batch == nullptr) return;
    event_ = index;
    time_ns_ = batch->time_ns(i);
    const bool is_on_device = !IsMark(batch->kind(i)) && !IsLabel(batch->kind(i));
    slot_ = is_on_device ? SlotOfDevice(batch->device(i)) : 0;
    if (*progress_ && index % kEventsPerProgress == 0) (*progress_)(1, index);
  }
  uint64_t events() const { return events_; }

 private:
  IndexPass* index_pass_;
  const LabelReplay* replay_;
  LifeReceiver* receiver_;
  const LoadedLives::Progress* progress_;
  uint64_t event_ = 0, time_ns_ = 0;  // of the event before, whose totals are there when the next one comes
  uint32_t slot_ = 0;
  uint64_t events_ = 0;
};

class ReceivedLives final : public LifePass {
 public:
  ReceivedLives(const Needs& needs, LifeReceiver* receiver, const LoadedLives::Progress* progress)
      : LifePass(needs), receiver_(receiver), progress_(progress) {}

  void Before(uint64_t index, const EventBatch* batch, size_t i) override {
    LifePass::Before(index, batch, i);
    if (*progress_ && batch != nullptr && index % kEventsPerProgress == 0) (*progress_)(2, index);
  }

 private:
  bool IsWanted(const Life& life) const override { return receiver_->IsWanted(life); }
  void Lived(const Life& life, const AttributedUse& use) override { receiver_->Lived(life, use); }

  LifeReceiver* receiver_;
  const LoadedLives::Progress* progress_;
};

class ReplayedLives final : public LivesAnalysis {
 public:
  ReplayedLives(LoadedTrace* loaded, LifeReceiver* receiver, LoadedLives::Progress progress)
      : LivesAnalysis(loaded), receiver_(receiver), progress_(std::move(progress)) {}

  void EndFirst(const LabelReplay&) override { receiver_->EndOfTotals(); }
  void EndSecond() override {
    LivesFacts facts{totals_->events(), lives_->end_event(), {}};
    for (uint32_t row = 0; row < modules()->size(); ++row) facts.modules.push_back(modules()->row(row));
    receiver_->Ended(facts);
  }

 private:
  LabelVisitor* First(IndexPass* index_pass, const LabelReplay& replay) override {
    totals_.emplace(index_pass, &replay, receiver_, &progress_);
    return &*totals_;
  }
  LabelVisitor* Second(const LifePass::Needs& needs) override {
    lives_.emplace(needs, receiver_, &progress_);
    return &*lives_;
  }

  LifeReceiver* receiver_;
  LoadedLives::Progress progress_;
  std::optional<TotalsVisitor> totals_;
  std::optional<ReceivedLives> lives_;
};

}  // namespace

LivesAnalysis::LivesAnalysis(LoadedTrace* loaded)
    : loaded_(loaded),
      request_(RequestOf(loaded->analysis)),
      classifier_(&loaded->stacks, &rules_, ResolverOf(loaded)),
      modules_(&loaded->stacks.objects(), &rules_),
      user_stages_(&loaded->analysis.marks, &loaded->stacks) {
  // As an Attributor numbers them, whose lives are kept: what depends on the order of rows is the same with both.
  for (const auto& [id, module] : loaded->stacks.objects().modules()) modules_.RowOf(id);
}

LabelVisitor* LivesAnalysis::BeginFirst(const LabelReplay& replay) {
  index_pass_.emplace(request_, SlotOfDevice(request_.device), &replay, &loaded_->stacks, &classifier_, &user_stages_);
  if (loaded_->analysis.events.by_kind.count("OPTIMIZER_STEP") == 0) index_pass_->CountIterations();
  return First(&*index_pass_, replay);
}

LabelVisitor* LivesAnalysis::BeginSecond(const LabelReplay& replay) {
  LifePass::Needs needs;
  needs.uses = {&replay,   &index_pass_->places(), index_pass_->has_tensors(), &classifier_,
                &modules_, &user_stages_,          index_pass_->LastLoop(),    index_pass_->FirstStackOfCalls()};
  needs.analysis = &loaded_->analysis;
  return Second(needs);
}

LoadedLives::LoadedLives(LoadedTrace* loaded, LifeReceiver* receiver, Progress progress)
    : loaded_(loaded), receiver_(receiver) {
  const SavedAnswers* const answers = AnswersOf(loaded);
  if (answers == nullptr || !answers->lives().IsIntact())
    replays_ = std::make_unique<ReplayedLives>(loaded, receiver, std::move(progress));
}

LoadedLives::~LoadedLives() = default;

absl::Status LoadedLives::Finish() {
  if (replays_ != nullptr) return absl::OkStatus();
  const SavedAnswers& answers = *AnswersOf(loaded_);
  const LifeTable table = answers.lives();
  bool is_read = true;
  if (receiver_->WantsTotals()) {
    is_read = table.ReadTotals([this](const TotalsAfter& after) {
      if (after.is_own) receiver_->Totals(after.event, after.time_ns, after.slot, after.totals.values);
    });
    receiver_->EndOfTotals();
  }
  is_read = is_read && table.ReadLives([this](const Life& life, const AttributedUse& use) {
    if (receiver_->IsWanted(life)) receiver_->Lived(life, use);
  });
  if (!is_read) return absl::DataLossError("what was kept of this trace has changed while it was read. Ask again.");
  receiver_->Ended({table.data().events, table.data().end_event, answers.modules()});
  return absl::OkStatus();
}

absl::Status ShowLives(LoadedTrace* loaded, LifeReceiver* receiver) {
  LoadedLives lives(loaded, receiver);
  GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {lives.analysis()}));
  return lives.Finish();
}

}  // namespace gpumem

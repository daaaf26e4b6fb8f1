// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/lives.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "ledger/attribution/index_pass.h"
#include "ledger/attribution/life_sink.h"
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

// The index pass of attribution, and beside it the totals after each event and what lives will be numbers of.
class TotalsVisitor final : public LabelVisitor {
 public:
  struct Needs {
    const LabelReplay* replay;
    const Analysis* analysis;
    LifeReceiver* receiver;
    UserStages* user_stages;
    const LoadedLives::Progress* progress;
  };
  TotalsVisitor(const Needs& needs, IndexPass* index_pass)
      : needs_(needs), index_pass_(index_pass), until_ns_(EndOfProgram(*needs.analysis)) {}

  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) override {
    Saw(block);
    index_pass_->BlockEnded(block, label, end, alive);
  }
  void CudaEnded(const CudaLife& life, uint64_t) override { Saw(life); }
  void SegmentEnded(const CudaLife& life, uint64_t) override { named_.Add(life.stack, life.api); }
  void TensorPlaced(uint32_t tensor, uint64_t bytes) override { index_pass_->TensorPlaced(tensor, bytes); }

  void Before(uint64_t index, const EventBatch* batch, size_t i) override {
    index_pass_->Before(index, batch, i);
    if (slot_ != 0 && slot_ < needs_.replay->state().slots())
      needs_.receiver->Totals(event_, time_ns_, slot_, needs_.replay->state().values(slot_));
    events_ = index;
    if (batch == nullptr) return;
    event_ = index;
    time_ns_ = batch->time_ns(i);
    if (time_ns_ > until_ns_) frozen_at_ = std::min(frozen_at_, index);
    named_.Add(batch->stack(i), batch->api(i));
    const bool is_on_device = !IsMark(batch->kind(i)) && !IsLabel(batch->kind(i));
    slot_ = is_on_device ? SlotOfDevice(batch->device(i)) : 0;
    if (*needs_.progress && index % kEventsPerProgress == 0) (*needs_.progress)(1, index);
  }

  // After the replay.
  LivesFacts Facts() const {
    const uint64_t after = std::min(frozen_at_, events_);
    return {events_,
            after == 0 ? 0 : after - 1,
            index_pass_->steps().steps(),
            needs_.user_stages->names(),
            named_.Stacks(),
            named_.Apis(),
            {}};
  }

 private:
  template <typename Ended>  // TorchBlock or CudaLife
  void Saw(const Ended& ended) {
    named_.Add(ended.stack, ended.api);
    needs_.user_stages->Of(ended.time_ns, ended.thread);
  }

  Needs needs_;
  IndexPass* index_pass_;
  uint64_t until_ns_;
  uint64_t event_ = 0, time_ns_ = 0;  // of the event before, whose totals are there when the next one comes
  uint32_t slot_ = 0;
  uint64_t events_ = 0, frozen_at_ = UINT64_MAX;
  NamedIds named_;
};

class ReceivedLives final : public LifePass {
 public:
  ReceivedLives(const Needs& needs, LifeReceiver* receiver, LivesFacts* facts, const LoadedLives::Progress* progress)
      : LifePass(needs), modules_(needs.uses.modules), receiver_(receiver), facts_(facts), progress_(progress) {}

  void Before(uint64_t index, const EventBatch* batch, size_t i) override {
    LifePass::Before(index, batch, i);
    if (*progress_ && batch != nullptr && index % kEventsPerProgress == 0) (*progress_)(2, index);
  }
  void TakeModules() {
    for (auto& known = facts_->modules; known.size() < modules_->size();)
      known.push_back(modules_->row(static_cast<uint32_t>(known.size())));
  }

 private:
  bool IsWanted(const Life& life) const override { return receiver_->IsWanted(life); }
  void Lived(const Life& life, const AttributedUse& use) override {
    TakeModules();
    receiver_->Lived(life, use);
  }

  const ModuleTable* modules_;
  LifeReceiver* receiver_;
  LivesFacts* facts_;
  const LoadedLives::Progress* progress_;
};

class ReplayedLives final : public TwoPassAnalysis {
 public:
  ReplayedLives(LoadedTrace* loaded, LifeReceiver* receiver, LoadedLives::Progress progress)
      : loaded_(loaded),
        receiver_(receiver),
        progress_(std::move(progress)),
        request_(RequestOf(loaded->analysis)),
        classifier_(&loaded->stacks, &rules_, ResolverOf(loaded)),
        modules_(&loaded->stacks.objects(), &rules_),
        user_stages_(&loaded->analysis.marks, &loaded->stacks) {
    // As an Attributor numbers them, whose lives are kept: what depends on the order of rows is the same with both.
    for (const auto& [id, module] : loaded->stacks.objects().modules()) modules_.RowOf(id);
  }

  uint64_t FirstEnd() const override { return loaded_->analysis.end_ns; }
  LabelVisitor* BeginFirst(const LabelReplay& replay) override {
    index_pass_.emplace(request_, SlotOfDevice(request_.device), &replay, &loaded_->stacks, &classifier_,
                        &user_stages_);
    if (loaded_->analysis.events.by_kind.count("OPTIMIZER_STEP") == 0) index_pass_->CountIterations();
    const TotalsVisitor::Needs needs{&replay, &loaded_->analysis, receiver_, &user_stages_, &progress_};
    return &totals_.emplace(needs, &*index_pass_);
  }
  void EndFirst(const LabelReplay&) override {
    facts_ = totals_->Facts();
    receiver_->Begin(facts_);
  }
  uint64_t SecondEnd() const override { return loaded_->analysis.end_ns; }
  LabelVisitor* BeginSecond(const LabelReplay& replay) override {
    if (!receiver_->WantsLives()) return nullptr;
    LifePass::Needs needs;
    needs.uses = BlockUses::NeedsAfter(*index_pass_, replay, &classifier_, &modules_, &user_stages_);
    needs.analysis = &loaded_->analysis;
    return &lives_.emplace(needs, receiver_, &facts_, &progress_);
  }
  void EndSecond() override {
    lives_->TakeModules();
    receiver_->Ended(facts_);
  }

 private:
  LoadedTrace* loaded_;
  LifeReceiver* receiver_;
  LoadedLives::Progress progress_;
  AttributionRequest request_;
  Rules rules_;
  StackClassifier classifier_;
  ModuleTable modules_;
  UserStages user_stages_;
  LivesFacts facts_;
  std::optional<IndexPass> index_pass_;
  std::optional<TotalsVisitor> totals_;
  std::optional<ReceivedLives> lives_;
};

LivesFacts KeptFacts(const SavedAnswers& answers) {
  const LifeTable table = answers.lives();
  const LifeTableData& data = table.data();
  const Attribution& whole = answers.whole();
  LivesFacts facts{data.events, data.end_event, {}, whole.user_stages, data.stacks, data.apis, whole.modules};
  for (const AttributedStep& each : whole.steps) facts.steps.push_back(each.step);
  return facts;
}

}  // namespace

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
  facts_ = KeptFacts(answers);
  bool is_read = true;
  if (receiver_->WantsTotals()) {
    is_read = table.ReadTotals([this](const TotalsAfter& after) {
      if (after.is_own) receiver_->Totals(after.event, after.time_ns, after.slot, after.totals.values);
    });
  }
  receiver_->Begin(facts_);
  if (!receiver_->WantsLives()) return absl::OkStatus();
  is_read = is_read && table.ReadLives([this](const Life& life, const AttributedUse& use) {
    if (receiver_->IsWanted(life)) receiver_->Lived(life, use);
  });
  if (!is_read) return absl::DataLossError("what was kept of this trace has changed while it was read. Ask again.");
  receiver_->Ended(facts_);
  return absl::OkStatus();
}

absl::Status ShowLives(LoadedTrace* loaded, LifeReceiver* receiver) {
  LoadedLives lives(loaded, receiver);
  GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {lives.analysis()}));
  return lives.Finish();
}

}  // namespace gpumem

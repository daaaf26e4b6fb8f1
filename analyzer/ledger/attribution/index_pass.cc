// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/index_pass.h"

#include <algorithm>
#include <map>
#include <utility>

namespace gpumem {
namespace {

StepPass PassOf(const StackClassification& classification) {
  if (classification.evaluates || classification.stage == Stage::kEvaluation) return StepPass::kEvaluation;
  if (classification.stage == Stage::kBackward) return StepPass::kBackward;
  return classification.stage == Stage::kForward && classification.module != 0 ? StepPass::kForward : StepPass::kNone;
}

}  // namespace

void NotePlace(const TorchBlock& block, const BlockLabel& label, PlaceRoles* places) {
  if (label.role == TensorRole::kNone || label.role == TensorRole::kOptimizerState) return;
  for (const uint32_t turn : {label.turn, kAnyTurn}) {
    PlaceRole& place = (*places)[{block.stack, block.size, turn}];
    if (Strength(place.role) > Strength(label.role)) continue;
    place = {label.role, label.tensor, label.tensor_bytes};
  }
}

void NoteHeld(const TorchBlock& block, const BlockLabel& label, HeldByStack* held) {
  if (block.stack == 0) return;
  HeldBlocks& of_stack = (*held)[block.stack];
  of_stack.oldest_event = std::min(of_stack.oldest_event, label.alloc_event);
  of_stack.oldest_steps = std::min(of_stack.oldest_steps, label.optimizer_steps);
  of_stack.newest_steps = std::max(of_stack.newest_steps, label.optimizer_steps);
  ++of_stack.count;
}

void IndexPass::BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t, bool alive) {
  NotePlace(block, label, &places_);
  if (alive || has_ended_) NoteHeld(block, label, &held_);
}

// A mark has the text, or begins with it where what the program added follows: "epoch done (loss=0.3)". The first one
// counts, and a whole text before the beginning of one.
void IndexPass::FindMoments(uint64_t index, const EventBatch* batch, size_t i) {
  for (size_t query = 0; query < request_.moments.size(); ++query) {
    const MomentQuery& moment = request_.moments[query];
    const bool is_event = moment.kind == MomentQuery::Kind::kEvent && moment.number + 1 == index;
    // A state holds until the next event: a time's is that of the last event at or before it.
    const bool is_time = moment.kind == MomentQuery::Kind::kTime && last_ns_ != 0 && last_ns_ <= moment.number;
    const bool is_mark = moment.kind == MomentQuery::Kind::kMark && batch != nullptr && batch->kind(i) == trace::MARK &&
                         marks_[query].Takes(moment, batch->time_ns(i), stacks_->string(batch->text(i)));
    if (!is_event && !is_time && !is_mark) continue;
    found_[query] =
        index == 0 ? 0 : index - 1;  // before the first event nothing is alive, nor after it where it is a mark
    found_ns_[query] = is_time ? moment.number : is_mark ? batch->time_ns(i) : last_ns_;
  }
}

void IndexPass::Before(uint64_t index, const EventBatch* batch, size_t i) {
  static constexpr MeasureValues kNothing;
  const LiveState& state = replay_->state();
  const MeasureValues& values = slot_ < state.slots() ? state.values(slot_) : kNothing;
  if (!request_.moments.empty()) FindMoments(index, batch, i);
  if (has_ended_) {
    if (batch != nullptr) last_ns_ = std::max(last_ns_, batch->time_ns(i));
    return;
  }
  has_ended_ = batch == nullptr || (batch->kind(i) == trace::MARK && batch->handle(i) == kProgramEndMark);
  if (iterations_) iterations_->Before(index, has_ended_ ? nullptr : batch, i);
  if (has_ended_) {  // what follows is teardown
    steps_.Finish(index, values);
    if (request_.stages) stages_.Finish(index, values);
    return;
  }
  last_ns_ = std::max(last_ns_, batch->time_ns(i));
  const uint32_t kind = batch->kind(i);
  has_tensors_ |= kind == trace::TENSOR && batch->handle(i) != 0;
  has_saved_ |= kind == trace::SAVED;
  StackClassification classification;
  const bool is_classified = (steps_.waits() || request_.steps || request_.stages) && kind == trace::ALLOC;
  if (is_classified) classification = classifier_->Of(batch->stack(i));
  const bool is_torch = batch->layer(i) == trace::TORCH;
  steps_.Before(index, *batch, i, values, is_torch ? PassOf(classification) : StepPass::kNone);
  if (!request_.stages) return;
  const uint32_t user = is_classified ? user_stages_->Of(batch->time_ns(i), batch->thread(i)) : 0;
  stages_.Before(index, *batch, i, values, is_classified && batch->stack(i) != 0 ? &classification : nullptr,
                 user_stages_->names()[user]);
}

Loop IndexPass::LastLoop() const {
  if (!iterations_) return {};
  std::vector<Loop> loops = iterations_->Loops();
  return loops.empty() ? Loop() : std::move(loops.back());
}

void IndexPass::TensorPlaced(uint32_t tensor, uint64_t bytes) {
  if (bytes != 0) tensor_bytes_[tensor] = bytes;
}

bool IndexPass::Find(size_t i, uint64_t* event_index, uint64_t* time_ns) const {
  const MomentQuery& query = request_.moments[i];
  if (query.kind == MomentQuery::Kind::kStep) {
    const Step* const step = steps_.Numbered(query.number);
    if (step == nullptr) return false;
    *event_index = step->peak.event_index;
    *time_ns = step->peak.time_ns;
    return true;
  }
  *event_index = found_[i];
  *time_ns = found_ns_[i];
  return found_[i] != kNone;
}

std::vector<ParameterRow> IndexPass::Parameters() const {
  std::map<uint32_t, ParameterRow> rows;
  const auto bytes_of = [&](uint32_t id, const TensorInfo& tensor) {
    const auto placed = tensor_bytes_.find(id);
    return placed != tensor_bytes_.end() ? placed->second : tensor.elements * BytesOfType(tensor.dtype);
  };
  const std::map<uint32_t, TensorInfo>& tensors = stacks_->objects().tensors();
  for (const auto& [id, tensor] : tensors) {
    if (tensor.role == TensorRole::kParameter) rows[id] = {id, bytes_of(id, tensor)};
  }
  for (const auto& [id, tensor] : tensors) {
    const auto row = rows.find(tensor.of);
    if (row == rows.end()) continue;
    if (tensor.role == TensorRole::kGradient) row->second.gradient_bytes += bytes_of(id, tensor);
    if (tensor.role == TensorRole::kOptimizerState) row->second.state_bytes += bytes_of(id, tensor);
  }
  std::vector<ParameterRow> list;
  for (const auto& [id, row] : rows) list.push_back(row);
  return list;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// IndexPass: the first of Attribute's two replays. Not thread-safe; the classifier must outlive it.
//
//   IndexPass index_pass(slot, measure, moments, &stacks, &classifier);
//   replay.Run(&index_pass, ...);   index_pass.places()[{stack, size, turn}]

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_INDEX_PASS_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_INDEX_PASS_H_

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/attribution/attribution.h"
#include "ledger/attribution/iteration_counter.h"
#include "ledger/attribution/label_replay.h"
#include "ledger/attribution/mark_search.h"
#include "ledger/attribution/user_stages.h"

namespace gpumem {

// Of what role blocks are that come from one stack and have one size: the parameters of a model whose gradients round
// up to the same size come in one order at every step, so of each turn (BlockLabel), and of any.
inline constexpr uint32_t kAnyTurn = UINT32_MAX;
struct PlaceRole {
  TensorRole role = TensorRole::kNone;
  uint32_t tensor = 0;
  uint64_t tensor_bytes = 0;
};
using PlaceRoles = absl::flat_hash_map<std::tuple<uint64_t, uint64_t, uint32_t>, PlaceRole>;  // stack, size, turn

// Takes what a block that ends says of its place.
void NotePlace(const TorchBlock& block, const BlockLabel& label, PlaceRoles* places);

// Blocks of one stack that are alive at the end of the program's own code: together they tell a list from a variable.
struct HeldBlocks {
  uint64_t oldest_event = UINT64_MAX;  // of their allocations
  uint32_t oldest_steps = UINT32_MAX;  // optimizer steps before the oldest one
  uint32_t newest_steps = 0;           // before the newest one
  uint32_t count = 0;
};
using HeldByStack = absl::flat_hash_map<uint64_t, HeldBlocks>;
void NoteHeld(const TorchBlock& block, const BlockLabel& label, HeldByStack* held);

class IndexPass final : public LabelVisitor {
 public:
  IndexPass(const AttributionRequest& request, uint32_t slot, const LabelReplay* replay, const StackTable* stacks,
            StackClassifier* classifier, UserStages* user_stages)
      : request_(request),
        slot_(slot),
        replay_(replay),
        stacks_(stacks),
        classifier_(classifier),
        user_stages_(user_stages),
        steps_(request.measure),
        stages_(request.measure, stacks),
        found_(request.moments.size(), kNone),
        marks_(request.moments.size()) {}

  // Looks for what repeats (iteration_counter.h), too: where no optimizer tells. Before the replay.
  void CountIterations() { iterations_.emplace(0, classifier_); }

  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) override;
  void Before(uint64_t index, const EventBatch* batch, size_t i) override;
  void TensorPlaced(uint32_t tensor, uint64_t bytes) override;

  const StepLog& steps() const { return steps_; }
  // The last loop of the program, Loop() where there is none.
  Loop LastLoop() const;
  uint64_t FirstStackOfCalls() const { return iterations_ ? iterations_->FirstStackOfCalls() : 0; }
  const StageLog& stages() const { return stages_; }  // empty where not asked for
  const PlaceRoles& places() const { return places_; }
  const HeldByStack& held() const { return held_; }
  // The event behind which moment `i` lies, and its time; false where there is none.
  bool Find(size_t i, uint64_t* event_index, uint64_t* time_ns) const;
  std::vector<ParameterRow> Parameters() const;
  bool has_tensors() const { return has_tensors_; }
  bool has_saved() const { return has_saved_; }

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  void FindMoments(uint64_t index, const EventBatch* batch, size_t i);

  const AttributionRequest& request_;
  uint32_t slot_;
  const LabelReplay* replay_;
  const StackTable* stacks_;
  StackClassifier* classifier_;
  UserStages* user_stages_;
  StepLog steps_;
  std::optional<IterationCounter> iterations_;
  StageLog stages_;
  PlaceRoles places_;
  HeldByStack held_;
  std::vector<uint64_t> found_;  // event of each moment
  std::vector<uint64_t> found_ns_ = std::vector<uint64_t>(found_.size());
  std::vector<MarkSearch> marks_;                         // of each moment
  absl::flat_hash_map<uint32_t, uint64_t> tensor_bytes_;  // last known, by Tensor.id
  uint64_t last_ns_ = 0;
  bool has_tensors_ = false, has_saved_ = false, has_ended_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_INDEX_PASS_H_

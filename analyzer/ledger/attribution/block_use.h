// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// BlockUses: what each piece of memory was for, told when it ends: the one place where evidence, stack and length of
// life are put together. AttributionPass adds its answers up at moments; query/ writes each of them down. Fed with the
// second replay of a trace, behind an IndexPass. Not thread-safe; what it is given must outlive it.
//
//   BlockUses uses(needs);
//   uses.Before(index, batch, i);  uses.Allocated(block);     // as a LabelVisitor receives it
//   const AttributedUse use = uses.Of(block, label, end, alive);   // in BlockEnded

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_BLOCK_USE_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_BLOCK_USE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/attribution/attribution.h"
#include "ledger/attribution/classify.h"
#include "ledger/attribution/index_pass.h"
#include "ledger/attribution/iteration_counter.h"
#include "ledger/attribution/label_replay.h"
#include "ledger/attribution/user_stages.h"

namespace gpumem {

class BlockUses {
 public:
  struct Needs {
    const LabelReplay* replay = nullptr;
    const PlaceRoles* places = nullptr;
    bool has_tensors = false;
    StackClassifier* classifier = nullptr;
    ModuleTable* modules = nullptr;
    UserStages* user_stages = nullptr;
    Loop loop;                          // iterations of a program without an optimizer; none: Loop()
    uint64_t first_stack_of_calls = 0;  // of its model; 0 = not known
    const HeldByStack* held = nullptr;  // nullptr: not known
    bool has_saved = true;              // autograd keeps something
  };
  // Of a second replay, what the first one found out; all that is given must outlive the uses.
  static Needs NeedsAfter(const IndexPass& first, const LabelReplay& second, StackClassifier* classifier,
                          ModuleTable* modules, UserStages* user_stages);
  explicit BlockUses(const Needs& needs) : needs_(needs), anchors_(needs.loop.anchors) {
    if (needs.loop.place != 0) clock_.emplace(needs.loop, *needs.classifier);
  }

  void Before(uint64_t index, const EventBatch* batch, size_t i);
  void Allocated(const TorchBlock& block);
  // The program's own code is over: steps and iterations count no further.
  void Freeze();

  // Without stage, recomputed and is_loss, which the stack alone tells.
  AttributedUse Of(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) const;
  AttributedUse Of(const CudaLife& life, bool alive) const;

 private:
  uint32_t Steps() const { return is_frozen_ ? frozen_steps_ : needs_.replay->optimizer_steps(); }
  uint32_t Ends() const { return is_frozen_ ? frozen_ends_ : needs_.replay->optimizer_ends(); }
  bool OfTensors(const CudaLife& life, bool alive, AttributedUse* use) const;
  bool GrowsFromCallToCall(const TorchBlock& block, const BlockLife& life, uint64_t alloc_event, uint64_t end) const;
  void TakeOthers(const TorchBlock& block, const StackClassification& classification, uint64_t end,
                  BlockLife* life) const;

  Needs needs_;
  std::optional<LoopClock> clock_;
  struct Sizes {
    uint64_t last = 0, growths = 0;
  };
  std::vector<uint64_t> anchors_;               // events at which an iteration of the loop ends, so far
  std::vector<uint64_t> calls_;                 // events at which a call of the model begins, so far
  absl::flat_hash_map<uint64_t, Sizes> sizes_;  // of the blocks of a stack, where calls are known
  bool is_frozen_ = false;
  uint32_t frozen_steps_ = 0, frozen_ends_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_BLOCK_USE_H_

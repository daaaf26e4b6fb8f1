// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PeakWithout: how high the peak of PyTorch's blocks would have been, had some of them not been there, or not for so
// long, and all else had stayed. Less is saved than they hold at the peak where another moment, at which they are not
// alive, is nearly as high. Counted exactly, event by event, so only for traces of up to kMostEvents. Not thread-safe;
// the trace must outlive it.
//
//   bytes   |      ____            all blocks: the peak is here
//           |   __|    |__
//           |  |  ......  |_      without the activations: the peak would be where the optimizer steps
//           +---------------- events
//
// What lives too long is known by the passes of a training: a pass forward that follows one backward, or an optimizer's
// step, begins a round (a micro-batch).
//
//   round 1: forward backward step | round 2: forward backward step | ...
//   gradients         [=========================]    needed to the end of the step: too long from there to backward
//   an output   [=======================]            needed for its own round: too long from the next one's beginning
//
//   PeakWithout without(loaded, device, "train.py:42 main");
//   GPUMEM_RETURN_IF_ERROR(ShowLives(loaded, &without));
//   without.Of(PeakPart::kActivations)   // bytes; nothing where it is not known

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_PEAK_WITHOUT_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_PEAK_WITHOUT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "answers/report/spare_results.h"
#include "ledger/stacks/lives.h"

namespace gpumem {

enum class PeakPart : uint8_t {
  kActivations,
  kLoss,
  kLine,          // that was asked for
  kGradients,     // from the end of a step to the next backward pass
  kCarried,       // what a round computed, from the next round on, and graphs without a backward pass (idle_graphs.h),
  kKeptLong,      // and the same of lines that keep it for many rounds, and let go of all of it at once
  kLoaded,        // copies in a checkpoint of what the model and the optimizer have, from the first pass on
  kForeach,       // what an optimizer computes for all parameters at once
  kDeadAttempts,  // of calls that ran out of memory, from there on
  kJoined,        // results that torch.cat joins again and again (spare_results.h),
  kLittleUsed,    // and those of which a slice is used
};
inline constexpr size_t kPeakParts = static_cast<size_t>(PeakPart::kLittleUsed) + 1;

class PeakWithout final : public LifeReceiver {
 public:
  // Up to 80 bytes of memory for each event.
  static constexpr uint64_t kMostEvents = 4'000'000;

  // `line`: as reports show it ("train.py:42 main"); "" = none.
  PeakWithout(LoadedTrace* loaded, const DeviceAnalysis& device, std::string line = "");

  bool IsWanted(const Life& life) const override { return life.kind == LifeKind::kBlock && life.slot == slot_; }
  void Begin(const LivesFacts& facts) override;
  void Lived(const Life& life, const AttributedUse& use) override;
  void Ended(const LivesFacts& facts) override;

  // Of a device of PyTorch's blocks in a trace of at most so many events; else nullptr.
  static std::unique_ptr<PeakWithout> Make(LoadedTrace* loaded, const DeviceAnalysis* device, std::string line = "",
                                           uint64_t most_events = kMostEvents);
  // Counts at once, for loaded->input.without; OK where there is nothing to count.
  static absl::StatusOr<std::unique_ptr<PeakWithout>> Count(LoadedTrace* loaded, const DeviceAnalysis* device,
                                                            std::string line = "");

  // The peak without these blocks. Nothing: the trace is too long, or its events do not add up to its peak (a gap).
  std::optional<uint64_t> Of(PeakPart part) const { return peaks_[static_cast<size_t>(part)]; }
  // What of a part is alive too long after event `event`, at its peak where none is named, and the stack with most of
  // it.
  struct Held {
    uint64_t bytes = 0, blocks = 0, stack = 0;
  };
  uint64_t ActivationsAt(uint64_t event) const;  // bytes that autograd keeps after it
  // A first optimizer step that fails after it: the state that it still had to make, at least; else 0.
  uint64_t StateMissingAt(uint64_t event) const;
  Held At(PeakPart part, std::optional<uint64_t> event = std::nullopt) const;

 private:
  struct OfStack {
    Stage stage = Stage::kNone;
    bool is_loss = false, is_of_line = false, is_moved = false, is_foreach = false, is_recomputed = false;
    ResultOf result_of = ResultOf::kOther;
  };
  using Block = LifeSpan;
  struct Cut {
    Block block;  // the part of a life that is not needed
    PeakPart part = PeakPart::kForeach;
  };
  struct Failure {
    uint64_t event = 0;
    std::vector<uint32_t> callers;  // outermost first, without the innermost function
  };

  std::vector<uint32_t> PythonFrames(uint64_t stack_id) const;
  OfStack Of(uint64_t stack_id);
  static void AddTo(std::vector<int64_t>* changes, const Block& block);
  void NoteDead(const Block& block);
  void FindRounds();
  void CutGradients();
  bool IsLetGoOfAtOnce(const std::vector<Block>& blocks) const;
  void CutCarried();
  void CutIdleGraphs();
  void CutLoaded();
  void CutSpare();

  LoadedTrace* const loaded_;
  const Rules rules_;
  StackClassifier classifier_;
  const uint32_t slot_;
  const uint64_t peak_, peak_event_;
  const std::string line_;
  std::vector<Failure> failures_;
  bool is_too_long_ = false;
  uint64_t end_event_ = 0;  // of the program's own code
  // By event: what its taking effect adds.
  std::vector<int64_t> all_;
  std::array<std::vector<int64_t>, 3> of_parts_;  // the first three
  absl::flat_hash_map<uint64_t, OfStack> of_stacks_;
  std::vector<uint64_t> step_ends_;                // events
  std::vector<std::pair<uint64_t, bool>> passes_;  // allocations in passes: event, whether backward
  std::vector<uint64_t> rounds_, backwards_;       // events at which a round, and its backward pass, begin
  std::vector<Block> computed_, moved_, gradients_, loaded_blocks_, saved_, inputs_;
  SpareResults spare_;
  std::vector<Cut> cuts_;
  std::vector<Block> parameters_, made_by_optimizer_;    // the second: where a request failed before any step was over
  absl::flat_hash_set<uint64_t> model_sizes_;            // of blocks of the model and its optimizer
  absl::flat_hash_map<uint64_t, uint64_t> activations_;  // after each event at which a request failed
  std::array<std::optional<uint64_t>, kPeakParts> peaks_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_PEAK_WITHOUT_H_

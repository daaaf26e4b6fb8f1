// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PeakWithout: how high the peak of PyTorch's blocks would have been, had some of them not been there and all else had
// stayed. Less is saved than they hold at the peak where another moment, at which they are not alive, is nearly as
// high. Counted exactly, event by event, so only for traces of up to kMostEvents. Not thread-safe; the trace must
// outlive it.
//
//   bytes   |      ____            all blocks: the peak is here
//           |   __|    |__
//           |  |  ......  |_      without the activations: the peak would be where the optimizer steps
//           +---------------- events
//
//   PeakWithout without(loaded, device, "train.py:42 main");
//   GPUMEM_RETURN_IF_ERROR(ShowLives(loaded, &without));
//   without.Of(PeakWithout::kActivations)   // bytes; nothing where it is not known

#ifndef GPUMEM_ANALYZER_ANSWERS_EXPLAIN_PEAK_WITHOUT_H_
#define GPUMEM_ANALYZER_ANSWERS_EXPLAIN_PEAK_WITHOUT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/stacks/lives.h"

namespace gpumem {

class PeakWithout final : public LifeReceiver {
 public:
  // 32 bytes of memory for each event.
  static constexpr uint64_t kMostEvents = 4'000'000;

  enum Part : uint8_t { kActivations, kLoss, kLine, kParts };

  // `line`: as reports show it ("train.py:42 main"); "" = none.
  PeakWithout(LoadedTrace* loaded, const DeviceAnalysis& device, std::string line);

  bool IsWanted(const Life& life) const override { return life.kind == LifeKind::kBlock && life.slot == slot_; }
  void Lived(const Life& life, const AttributedUse& use) override;
  void Ended(const LivesFacts& facts) override;

  // The peak without these blocks. Nothing: the trace is too long, or its events do not add up to its peak (a gap).
  std::optional<uint64_t> Of(Part part) const { return peaks_[part]; }

 private:
  struct OfStack {
    bool is_loss = false, is_of_line = false;
  };

  void AddTo(std::vector<int64_t>* changes, const Life& life) const;
  OfStack Of(uint64_t stack_id);

  LoadedTrace* const loaded_;
  const Rules rules_;
  StackClassifier classifier_;
  const uint32_t slot_;
  const uint64_t peak_;
  const std::string line_;
  bool is_too_long_ = false;
  // By event: what its taking effect adds.
  std::vector<int64_t> all_;
  std::array<std::vector<int64_t>, kParts> of_parts_;
  absl::flat_hash_map<uint64_t, OfStack> of_stacks_;
  std::array<std::optional<uint64_t>, kParts> peaks_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_EXPLAIN_PEAK_WITHOUT_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// AttributionPass: the second of Attribute's two replays: gives each block its category when it ends and adds it to the
// moments at which it was alive. A moment is the state after an event. Events after `lives.until_ns` are not of it,
// however far the replay goes on for others. Many moments (three for each step) get sums by category, the few that were
// asked for get every stack too. Not thread-safe; what it is given must outlive it.
//
//   AttributionPass attribution_pass(needs, {12, 40, 41}, {40});   // all stacks of what was alive behind event 40
//   replay.Run(&attribution_pass);
//   attribution_pass.Sum();   attribution_pass.Categories(41);

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTION_PASS_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTION_PASS_H_

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ledger/attribution/attribution.h"
#include "ledger/attribution/label_replay.h"
#include "ledger/attribution/life_pass.h"
#include "ledger/attribution/life_sink.h"
#include "ledger/attribution/use_sums.h"

namespace gpumem {

class AttributionPass final : public LifePass {
 public:
  struct Needs {
    LifePass::Needs lives;
    const AttributionRequest* request = nullptr;
    uint32_t slot = 0;
  };
  // `moments`: events, ascending, each once. `details`: some of them.
  AttributionPass(const Needs& needs, std::vector<uint64_t> moments, const std::vector<uint64_t>& details);

  void BlockAllocated(const TorchBlock& block) override;
  void BlockSaved(const TorchBlock& block) override;
  void Before(uint64_t index, const EventBatch* batch, size_t i) override;

  // Once, after the replay; what follows needs it.
  void Sum();
  // Of the state behind a moment's event.
  const CategoryBytes& Categories(uint64_t event_index) const;
  // All that a detailed one has.
  void Describe(uint64_t event_index, Moment* moment) const;
  std::vector<ModuleUse> ModuleUses() const;  // by allocated bytes
  std::vector<uint64_t> ModulePeaks() const;
  std::vector<uint64_t> InclusivePeaks() const;

 private:
  using RunningKey = std::tuple<uint32_t, Stage, uint32_t>;  // module, stage, the user's stage
  struct Running {
    ModuleUse use;
    uint64_t live = 0, live_saved = 0;
  };
  struct Peak {
    uint64_t live = 0, most = 0;
  };

  void Lived(const Life& life, const AttributedUse& use) override;
  bool IsWanted(const Life& life) const override;
  bool IsOfMoments(const Life& life) const;
  bool IsFrozen() const { return frozen_at() != UINT64_MAX; }
  static std::vector<uint64_t> MostOf(const std::vector<Peak>& peaks);
  MomentTotals TakeTotals(uint32_t slot) const;
  void Classify(AttributedUse* use) const;
  void Tell(uint64_t index, const EventBatch* batch, size_t i);
  void TellTotals(uint64_t event, uint32_t slot, bool is_own);
  bool IsCovered(uint64_t alloc_event, uint64_t end) const;
  void Add(uint64_t alloc_event, uint64_t end, const AttributedUse& use);
  Running& RunningOf(uint64_t stack, uint64_t time_ns, uint32_t thread, uint32_t* row);
  void EndRunning(const Life& life, const AttributedUse& use);
  const std::vector<uint32_t>& RowsOn(uint64_t stack);
  size_t PlaceOf(uint64_t event_index) const;

  Needs needs_;
  std::vector<uint64_t> moments_;
  std::vector<MomentTotals> totals_;                    // by moment
  std::vector<std::array<int64_t, kCategories>> sums_;  // by moment, as differences
  std::vector<CategoryBytes> categories_;               // by moment, after Sum
  std::map<uint64_t, UseSums> details_;                 // by event
  absl::flat_hash_map<RunningKey, Running> running_;
  std::vector<Peak> peaks_;                                       // by row
  std::vector<Peak> inclusive_;                                   // by row, with all inside its calls
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> rows_on_;  // of a stack: of all calls on it
  // For request->lives.
  struct Told {
    bool is_any = false;
    MomentTotals totals;
  };
  std::vector<Told> told_[2];            // by slot: last, for `is_own` and not
  uint64_t latest_ns_ = 0, now_ns_ = 0;  // of the event that took effect last
  uint32_t now_slot_ = 0;                // of its device; 0 = of none
  uint64_t live_blocks_ = 0;
  bool is_exact_ = true;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_ATTRIBUTION_PASS_H_

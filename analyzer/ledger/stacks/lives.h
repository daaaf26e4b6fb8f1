// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LoadedLives: shows all that lived in a loaded trace, with the same evidence that every other answer about categories
// and steps stands on: from what is kept of a large trace (ledger/saved), else by two replays, which others may share.
// Not thread-safe; the trace must outlive it.
//
//   class Count final : public LifeReceiver { void Lived(const Life& life, const AttributedUse&) override { ++lives; }
//   }; Count count; GPUMEM_RETURN_IF_ERROR(ShowLives(loaded, &count));

#ifndef GPUMEM_ANALYZER_LEDGER_STACKS_LIVES_H_
#define GPUMEM_ANALYZER_LEDGER_STACKS_LIVES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ledger/attribution/life_pass.h"
#include "ledger/attribution/step_log.h"
#include "ledger/attribution/two_passes.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

// What a trace's lives and totals are numbers of.
struct LivesFacts {
  uint64_t events = 0;                   // of the trace
  uint64_t end_event = 0;                // the last one of the program's own code
  std::vector<Step> steps;               // of the largest device
  std::vector<std::string> user_stages;  // AttributedUse::user_stage
  std::vector<uint64_t> stacks;          // that events and lives name, ascending
  std::vector<uint32_t> apis;            // the same of functions
  std::vector<ModuleRow> modules;        // AttributedUse::module; complete at the end, with what a life names before
};

class LifeReceiver {
 public:
  virtual ~LifeReceiver() = default;
  virtual bool WantsTotals() const { return false; }
  // A device's totals after an event on it, where they changed, and after its first one. All of them come before the
  // first life.
  virtual void Totals(uint64_t /*event*/, uint64_t /*time_ns*/, uint32_t /*slot*/, const MeasureValues&) {}
  // Between totals and lives. The facts live as long as LoadedLives.
  virtual void Begin(const LivesFacts&) {}
  virtual bool WantsLives() const { return true; }
  // What is not wanted may not be shown.
  virtual bool IsWanted(const Life&) const { return true; }
  // In the order of Life::end. Stage, recomputed and is_loss of the use may not be set.
  virtual void Lived(const Life& life, const AttributedUse& use) = 0;
  virtual void Ended(const LivesFacts&) {}
};

class LoadedLives {
 public:
  // How far: event `done` of replay 1 or 2.
  using Progress = std::function<void(int replay, uint64_t done)>;

  // `receiver` must outlive it.
  LoadedLives(LoadedTrace* loaded, LifeReceiver* receiver, Progress progress = nullptr);
  ~LoadedLives();

  // For RunAnalyses; null where no replay is needed.
  TwoPassAnalysis* analysis() const { return replays_.get(); }
  // After it. Fails where what was kept is gone.
  absl::Status Finish();

 private:
  LoadedTrace* loaded_;
  LifeReceiver* receiver_;
  LivesFacts facts_;  // that are kept
  std::unique_ptr<TwoPassAnalysis> replays_;
};

absl::Status ShowLives(LoadedTrace* loaded, LifeReceiver* receiver);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_STACKS_LIVES_H_

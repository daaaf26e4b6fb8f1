// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// OomDetector: turns failed calls into out-of-memory events. PyTorch's allocator asks CUDA, frees its cache, asks again
// and then gives up: one event of the torch layer, whose failed CUDA calls on the same thread are its retries. A failed
// CUDA call that no such report follows is an event of its own, and not final where a later call of the same size on
// the thread succeeded.
//
// The live set at each failure is taken for the first 64 events; the others carry numbers only. Not thread-safe.

#ifndef GPUMEM_ANALYZER_REPLAY_OOM_H_
#define GPUMEM_ANALYZER_REPLAY_OOM_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "replay/analysis.h"
#include "replay/live_state.h"
#include "trace/event_batch.h"
#include "trace/stack_table.h"

namespace gpumem {

class OomDetector {
 public:
  // Both must outlive it.
  OomDetector(const LiveState* state, const StackTable* names) : state_(state), names_(names) {}

  // Must see failed calls always, other events while has_pending().
  void Observe(const EventRow& row, uint64_t event_index);
  bool has_pending() const { return !pending_.empty(); }

  // In the order of time.
  std::vector<OomEvent> Finish();
  uint64_t dropped() const { return dropped_; }

 private:
  static constexpr size_t kMostLiveSets = 64;
  static constexpr size_t kMostEvents = 10000;
  static constexpr size_t kMostPendingOfThread = 256;

  struct Pending {
    OomEvent event;
    uint8_t memory = 0;
    bool succeeded_later = false;
  };

  OomEvent Describe(const EventRow& row, uint64_t event_index);
  void Flush(std::vector<Pending>* pending);
  void Emit(OomEvent event);

  const LiveState* state_;
  const StackTable* names_;
  absl::flat_hash_map<uint32_t, std::vector<Pending>> pending_;  // by thread
  std::vector<OomEvent> events_;
  size_t live_sets_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_OOM_H_

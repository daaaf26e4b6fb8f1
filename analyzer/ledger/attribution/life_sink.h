// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LifeSink: receives all lives of a trace during attribution, and the totals of its devices. Moments, pages and
// whatever else stands on lives can then be answered without a replay (ledger/saved/life_table.h).

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LIFE_SINK_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LIFE_SINK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "ledger/attribution/use_sums.h"

namespace gpumem {

struct AttributedUse;
struct Life;

// The totals of a device after an event that changed them.
struct TotalsAfter {
  uint64_t event = 0, time_ns = 0;  // of that event
  uint32_t slot = 0;
  bool is_own = true;  // false: the event was one of another device
  MomentTotals totals;
};

// What events and lives name: stacks, and functions that asked for memory (string ids). Not thread-safe.
class NamedIds {
 public:
  void Add(uint64_t stack, uint32_t api) {
    Add(stack, &last_stack_, &stacks_);
    Add(api, &last_api_, &apis_);
  }
  // Ascending.
  std::vector<uint64_t> Stacks() const { return Sorted<uint64_t>(stacks_); }
  std::vector<uint32_t> Apis() const { return Sorted<uint32_t>(apis_); }

 private:
  template <typename Id>
  static void Add(Id id, Id* last, absl::flat_hash_set<Id>* ids) {
    if (id == *last) return;  // as in loops
    *last = id;
    if (id != 0) ids->insert(id);  // 0 names none
  }
  template <typename Id>
  static std::vector<Id> Sorted(const absl::flat_hash_set<Id>& ids) {
    std::vector<Id> sorted(ids.begin(), ids.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

  uint64_t last_stack_ = 0;
  uint32_t last_api_ = 0;
  absl::flat_hash_set<uint64_t> stacks_;
  absl::flat_hash_set<uint32_t> apis_;
};

class LifeSink {
 public:
  virtual ~LifeSink() = default;
  // Of every event, in order, each once: the latest time of it and those before.
  virtual void Happened(uint64_t index, uint64_t latest_ns, uint64_t stack, uint32_t api) = 0;
  // Event `index` is a mark with this text. Not of the program's teardown.
  virtual void Marked(uint64_t index, uint64_t time_ns, uint32_t text) = 0;
  virtual void Totals(const TotalsAfter& totals) = 0;
  // In the order of `life.end`. Stage, recomputed and is_loss of the use are not set.
  virtual void Lived(const Life& life, const AttributedUse& use) = 0;
  // Once: the replay is over, after so many events. `end_event`: the last one of the program's own code. `classify`
  // sets what Lived does not. Not exact: blocks of the attributed device do not add up to what was allocated, after a
  // gap for instance, and moments cannot be told from lives.
  virtual void Ended(uint64_t events, uint64_t end_event, bool is_exact,
                     const std::function<void(AttributedUse*)>& classify) = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LIFE_SINK_H_

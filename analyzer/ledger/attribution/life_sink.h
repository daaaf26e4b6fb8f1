// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LifeSink: receives the composition of every moment of the attributed device during attribution. Moments up to
// the end of the second replay can then be answered without one (ledger/saved/moment_index.h).

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LIFE_SINK_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LIFE_SINK_H_

#include <cstdint>
#include <functional>

namespace gpumem {

struct AttributedUse;
struct MomentTotals;

class LifeSink {
 public:
  virtual ~LifeSink() = default;
  // Of every event, in order, each once: the latest time of it and those before.
  virtual void Happened(uint64_t index, uint64_t latest_ns) = 0;
  // Event `index` is a mark with this text.
  virtual void Marked(uint64_t index, uint64_t time_ns, uint32_t text) = 0;
  // Totals after event `index`, if they changed; `allocated` follows from the blocks.
  virtual void Totals(uint64_t index, const MomentTotals& totals) = 0;
  // Alive behind the events from `born` to the one before `end`. In the order of `end`. Stage, recomputed and is_loss
  // of the use are not set.
  virtual void Lived(uint64_t born, uint64_t end, const AttributedUse& use) = 0;
  // Once: the replay is over. `classify` sets what Lived does not. Not exact: blocks do not add up to what was
  // allocated, behind a gap for instance, and moments cannot be told from lives.
  virtual void Ended(bool is_exact, const std::function<void(AttributedUse*)>& classify) = 0;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_LIFE_SINK_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/memory_breakdown.h"

#include <algorithm>
#include <utility>

#include "replay/live_set.h"

namespace gpumem {
namespace {

// What the default pool keeps idle, if it has reserved as much as in the sample while `driver` holds.
uint64_t PoolIdle(const DeviceReading& reading, const DriverUse& driver) {
  if (reading.pool_reserved == kNotStated) return kNotStated;
  const uint64_t in_use = driver.stream_ordered - driver.stream_ordered_in_own_pools;
  return reading.pool_reserved - std::min(reading.pool_reserved, in_use);
}

// Where CUPTI recorded to the program's end, samples behind its last record are known, too: the device is asked last.
bool Knows(const CuptiInfo& cupti, uint64_t time_ns) {
  const bool to_the_end = cupti.state == trace::CUPTI_ENDED && time_ns > cupti.complete_until_ns;
  return cupti.KnowsAt(to_the_end ? cupti.complete_until_ns : time_ns);
}

// What only CUPTI saw, as of a time; nothing where it cannot know.
CuptiUse CuptiAt(const CuptiInfo& cupti, int device, uint64_t time_ns) {
  return Knows(cupti, time_ns) ? UseAt(cupti.only_cupti, device, time_ns) : CuptiUse();
}

// The recorder measures what a module takes by how far the device's free memory falls meanwhile. With other processes
// on the device that is theirs as well, so it counts as not measured.
DriverUse WithoutModules(DriverUse driver) {
  driver.modules = 0;
  driver.modules_not_measured = driver.module_count;
  return driver;
}

bool IsShared(const CounterLog& counters, uint32_t slot) {
  const DeviceLog* const log = counters.Of(slot);
  return log != nullptr && !log->neighbours.empty();
}

// All that is known to be in use at the sample's time.
uint64_t Explained(const DeviceReading& reading, const CuptiUse& cupti) {
  const uint64_t pool_idle = PoolIdle(reading, reading.driver);
  return reading.known + reading.driver.Stated() + reading.driver.Rounding() +
         (pool_idle == kNotStated ? 0 : pool_idle) + cupti.static_bytes + cupti.unseen_bytes;
}

// What the contexts that are alive and were not measured take, if each takes as much as the first did.
uint64_t EstimateContexts(const CounterLog& counters, uint32_t slot, const DriverUse& driver, const CuptiInfo& cupti,
                          int device) {
  const DeviceLog* log = counters.Of(slot);
  if (log == nullptr || !log->has_first_with_context) return 0;
  DeviceReading first = log->first_with_context;
  if (IsShared(counters, slot)) first.driver = WithoutModules(first.driver);
  const uint64_t rest = first.own - Explained(first, CuptiAt(cupti, device, first.time_ns));
  if (static_cast<int64_t>(rest) <= 0) return 0;
  const uint64_t alive = std::min(driver.contexts_not_measured, first.driver.contexts_not_measured);
  return rest / first.driver.contexts_not_measured * alive;
}

}  // namespace

MemoryBreakdown TakeBreakdown(const LiveState& state, uint32_t slot, uint64_t time_ns, uint64_t event_index,
                              const StackTable& names) {
  MemoryBreakdown breakdown;
  const Accounts& accounts = state.accounts();
  breakdown.any = true;
  breakdown.time_ns = time_ns;
  breakdown.values = state.values(slot);
  breakdown.driver = accounts.devices[slot].driver;
  breakdown.host_pinned = accounts.host_pinned;
  breakdown.managed = accounts.managed;
  breakdown.imported = accounts.imported;
  breakdown.other = std::move(CollectLiveSet(state, slot, Measure::kOther, time_ns, event_index, names).stacks);
  return breakdown;
}

void CompleteBreakdown(const CounterLog& counters, uint32_t slot, bool all_calls_seen, const CuptiInfo& cupti,
                       int device, MemoryBreakdown* breakdown) {
  if (!breakdown->any) return;
  breakdown->cupti_known = Knows(cupti, breakdown->time_ns);
  breakdown->cupti = CuptiAt(cupti, device, breakdown->time_ns);
  const DeviceReading* best = counters.Best(slot, breakdown->time_ns, breakdown->values.total, breakdown->driver);
  if (best == nullptr) return;
  breakdown->has_reading = true;
  breakdown->reading = *best;
  breakdown->same_state = best->steady && best->known == breakdown->values.total && best->driver == breakdown->driver;
  breakdown->pool_idle = PoolIdle(*best, breakdown->driver);
  if (IsShared(counters, slot)) {
    breakdown->driver = WithoutModules(breakdown->driver);
    breakdown->reading.driver = WithoutModules(breakdown->reading.driver);
  }
  if (best->own == kNotStated) return;
  // Unsigned, since hostile numbers may be anything; a share is never negative.
  const uint64_t rest = best->own - Explained(breakdown->reading, CuptiAt(cupti, device, best->time_ns));
  const uint64_t explained = breakdown->Explained();
  const bool is_below_zero = static_cast<int64_t>(rest) < 0 && ~rest + 1 > explained;
  breakdown->process = is_below_zero ? 0 : explained + rest;
  const auto beyond = static_cast<int64_t>(breakdown->process - explained);
  if (all_calls_seen && beyond > 0) {
    breakdown->context_estimate =
        std::min(EstimateContexts(counters, slot, breakdown->driver, cupti, device), static_cast<uint64_t>(beyond));
  }
  breakdown->unexplained = beyond - static_cast<int64_t>(breakdown->context_estimate);
}

}  // namespace gpumem

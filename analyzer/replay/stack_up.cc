// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/stack_up.h"

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

// All that is known to be in use at the sample's time.
uint64_t Explained(const DeviceReading& reading) {
  const uint64_t pool_idle = PoolIdle(reading, reading.driver);
  return reading.known + reading.driver.Stated() + reading.driver.Rounding() +
         (pool_idle == kNotStated ? 0 : pool_idle);
}

// What the contexts that are alive and were not measured take, if each takes as much as the first did.
uint64_t EstimateContexts(const CounterLog& counters, uint32_t slot, const DriverUse& driver) {
  const DeviceLog* log = counters.Of(slot);
  if (log == nullptr || !log->has_first_with_context) return 0;
  const DeviceReading& first = log->first_with_context;
  const uint64_t rest = first.own - Explained(first);
  if (static_cast<int64_t>(rest) <= 0) return 0;
  const uint64_t alive = std::min(driver.contexts_not_measured, first.driver.contexts_not_measured);
  return rest / first.driver.contexts_not_measured * alive;
}

}  // namespace

StackUp TakeStackUp(const LiveState& state, uint32_t slot, uint64_t time_ns, uint64_t event_index,
                    const StackTable& names) {
  StackUp stack_up;
  const Accounts& accounts = state.accounts();
  stack_up.any = true;
  stack_up.time_ns = time_ns;
  stack_up.values = state.values(slot);
  stack_up.driver = accounts.devices[slot].driver;
  stack_up.host_pinned = accounts.host_pinned;
  stack_up.managed = accounts.managed;
  stack_up.imported = accounts.imported;
  stack_up.other = std::move(CollectLiveSet(state, slot, Measure::kOther, time_ns, event_index, names).stacks);
  return stack_up;
}

void CompleteStackUp(const CounterLog& counters, uint32_t slot, bool all_calls_seen, StackUp* stack_up) {
  if (!stack_up->any) return;
  const DeviceReading* best = counters.Best(slot, stack_up->time_ns, stack_up->values.total, stack_up->driver);
  if (best == nullptr) return;
  stack_up->has_reading = true;
  stack_up->reading = *best;
  stack_up->same_state = best->steady && best->known == stack_up->values.total && best->driver == stack_up->driver;
  stack_up->pool_idle = PoolIdle(*best, stack_up->driver);
  if (best->own == kNotStated) return;
  // Unsigned, since hostile numbers may be anything; a share is never negative.
  const uint64_t rest = best->own - Explained(*best);
  const uint64_t explained = stack_up->Explained();
  const bool is_below_zero = static_cast<int64_t>(rest) < 0 && ~rest + 1 > explained;
  stack_up->process = is_below_zero ? 0 : explained + rest;
  const auto beyond = static_cast<int64_t>(stack_up->process - explained);
  if (all_calls_seen && beyond > 0) {
    stack_up->context_estimate =
        std::min(EstimateContexts(counters, slot, stack_up->driver), static_cast<uint64_t>(beyond));
  }
  stack_up->unexplained = beyond - static_cast<int64_t>(stack_up->context_estimate);
}

}  // namespace gpumem

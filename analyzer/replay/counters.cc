// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/counters.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "replay/live_set.h"

namespace gpumem {
namespace {

// A free is recorded before it is carried out: what CUDA did shortly before a sample may not have shown yet.
constexpr uint64_t kSettlingNs = 1'000'000;
constexpr size_t kMaxCrossed = 64;

DeviceReading ToReading(const trace::Counters& counters, const trace::DeviceCounters& device) {
  DeviceReading reading;
  reading.time_ns = counters.time_ns();
  reading.took_ns = counters.took_ns();
  reading.cause = static_cast<uint8_t>(counters.cause());
  reading.own_process = device.own_process() >= 0 && device.own_process() <= trace::OWN_ONLY_ONE
                            ? static_cast<OwnProcessMatch>(device.own_process())
                            : OwnProcessMatch::kUnknown;
  if (device.has_total_bytes()) reading.total = device.total_bytes();
  if (device.has_used_bytes()) reading.used = device.used_bytes();
  if (device.has_free_bytes()) reading.free = device.free_bytes();
  if (device.has_driver_reserved_bytes()) reading.driver_reserved = device.driver_reserved_bytes();
  if (device.has_own_bytes()) reading.own = device.own_bytes();
  if (device.has_pool_reserved_bytes()) reading.pool_reserved = device.pool_reserved_bytes();
  if (device.has_other_count()) reading.other_count = device.other_count();
  for (const trace::DeviceProcess& other : device.others()) {
    reading.others.push_back({other.pid(), other.name(), other.has_used_bytes() ? other.used_bytes() : kNotStated});
  }
  return reading;
}

// Keeps every second one, and the last.
void Thin(std::vector<DeviceReading>* readings) {
  size_t kept = 0;
  for (size_t i = 1; i < readings->size(); i += 2) (*readings)[kept++] = std::move((*readings)[i]);
  readings->resize(kept);
}

}  // namespace

void CounterLog::Offer(const trace::Counters& counters) {
  peak_rss_ = std::max(peak_rss_, counters.process_rss_bytes());
  if (counters.cause() == trace::NO_SAMPLE) return;
  ++samples_;
  took_ns_ += counters.took_ns();
  source_ = counters.source();
  source_error_ = counters.source_error();
  system_total_ = std::max(system_total_, counters.system_total_bytes());
  if (counters.system_available_bytes() > 0) {
    least_system_available_ = std::min(least_system_available_, counters.system_available_bytes());
  }
  for (const trace::ThresholdCrossing& crossing : counters.crossings()) {
    if (crossed_.size() == kMaxCrossed) break;
    crossed_.push_back({counters.time_ns(), crossing.device(), crossing.percent(), crossing.bytes(),
                        crossing.used_bytes(), crossing.total_bytes(),
                        crossing.has_own_bytes() ? crossing.own_bytes() : kNotStated});
  }
  pending_.push_back(counters);
}

void CounterLog::Settle(const Instant& instant, const Accounts& accounts) {
  while (!pending_.empty() && pending_.front().time_ns() < instant.until_ns) {
    const trace::Counters counters = std::move(pending_.front());
    pending_.pop_front();
    for (const trace::DeviceCounters& device : counters.devices()) Add(counters, device, instant, accounts);
  }
}

void CounterLog::Add(const trace::Counters& counters, const trace::DeviceCounters& device, const Instant& instant,
                     const Accounts& accounts) {
  const uint32_t slot = SlotOfDevice(device.device());
  if (slot == 0) return;
  if (slot >= logs_.size()) logs_.resize(slot + 1);
  DeviceReading reading = ToReading(counters, device);
  if (slot < accounts.devices.size()) {
    reading.known = accounts.devices[slot].values.total;
    reading.driver = accounts.devices[slot].driver;
  }
  const uint64_t began_ns = reading.time_ns - std::min(reading.time_ns, reading.took_ns + kSettlingNs);
  reading.steady = instant.last_change_ns < began_ns && instant.next_change_ns > reading.time_ns;

  DeviceLog& log = logs_[slot];
  if (reading.used != kNotStated && reading.used > log.peak_used) {
    log.peak_used = reading.used;
    log.peak_used_ns = reading.time_ns;
  }
  if (reading.own != kNotStated && reading.own > log.peak_own) {
    log.peak_own = reading.own;
    log.peak_own_ns = reading.time_ns;
  }
  AddNeighbours(reading, &log);
  if (log.count++ == 0 || std::tie(reading.known, reading.steady) >= std::tie(log.fullest.known, log.fullest.steady)) {
    log.fullest = reading;
  }
  const bool says_more = !log.has_first_with_context || (reading.steady && !log.first_with_context.steady);
  if (says_more && reading.own != kNotStated && reading.driver.contexts_not_measured > 0) {
    log.has_first_with_context = true;
    log.first_with_context = reading;
  }
  if (log.readings.size() == kMaxReadings) Thin(&log.readings);
  log.readings.push_back(std::move(reading));
}

void CounterLog::AddNeighbours(const DeviceReading& reading, DeviceLog* log) {
  for (const OtherProcess& other : reading.others) {
    const auto same = [&](const Neighbour& neighbour) { return neighbour.pid == other.pid; };
    auto it = std::find_if(log->neighbours.begin(), log->neighbours.end(), same);
    if (it == log->neighbours.end()) {
      if (log->neighbours.size() == kMaxNeighbours) continue;
      it = log->neighbours.insert(it, Neighbour());
      it->pid = other.pid;
      it->first_ns = reading.time_ns;
    }
    if (!other.name.empty()) it->name = other.name;
    it->last_ns = reading.time_ns;
    it->last = other.bytes == kNotStated ? 0 : other.bytes;
    it->peak = std::max(it->peak, it->last);
  }
}

void CounterLog::Finish() {
  for (DeviceLog& log : logs_) {
    std::stable_sort(log.neighbours.begin(), log.neighbours.end(),
                     [](const Neighbour& a, const Neighbour& b) { return a.peak > b.peak; });
  }
}

const DeviceReading* CounterLog::Best(uint32_t slot, uint64_t time_ns, uint64_t known, const DriverUse& driver) const {
  const DeviceLog* log = Of(slot);
  if (log == nullptr) return nullptr;
  const auto rank = [&](const DeviceReading& reading) {
    const bool same = reading.known == known && reading.driver == driver;
    const uint64_t distance = std::max(reading.time_ns, time_ns) - std::min(reading.time_ns, time_ns);
    return std::tuple(reading.own == kNotStated, !reading.steady, !same, distance);
  };
  const DeviceReading* best = &log->fullest;
  for (const DeviceReading& reading : log->readings) {
    if (rank(reading) < rank(*best)) best = &reading;
  }
  return best;
}

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

MemoryBreakdown TakeBreakdown(const LiveState& state, uint32_t slot, uint64_t time_ns, const StackTable& names) {
  MemoryBreakdown breakdown;
  const Accounts& accounts = state.accounts();
  breakdown.any = true;
  breakdown.time_ns = time_ns;
  breakdown.values = state.values(slot);
  breakdown.driver = accounts.devices[slot].driver;
  breakdown.host_pinned = accounts.host_pinned;
  breakdown.managed = accounts.managed;
  breakdown.imported = accounts.imported;
  breakdown.other = CollectOther(state, slot, names);
  for (const StackUse& use : breakdown.other) {
    if (const ThreadInfo* const thread = names.thread(use.thread)) breakdown.threads[use.thread] = *thread;
  }
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

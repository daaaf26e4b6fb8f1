// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CounterLog: the samples of the devices along a replay. A sample that the file states waits until the replay has come
// to its time, and then takes what is known of that instant beside it, so that the two can be compared. Bounded: at
// most kMaxReadings a device are kept (every second one goes when they are more), the one with most memory and the
// last always; at most kMaxNeighbours processes are told apart. Not thread-safe.
//
//   log.Offer(counters);                                    // in the order of the file
//   if (event_ns > log.next_ns()) log.Settle(event_ns, ...);  // before the event is applied
//   const DeviceReading* reading = log.Best(slot, time_ns, known, driver);

#ifndef GPUMEM_ANALYZER_REPLAY_COUNTERS_H_
#define GPUMEM_ANALYZER_REPLAY_COUNTERS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "gpumem/trace.pb.h"
#include "replay/analysis.h"
#include "replay/state/accounts.h"
#include "replay/state/live_state.h"
#include "trace/stack_table.h"

namespace gpumem {

// What was read of one device, all in all.
struct DeviceLog {
  uint64_t count = 0;
  uint64_t peak_used = 0, peak_used_ns = 0;  // by all processes
  uint64_t peak_own = 0, peak_own_ns = 0;
  std::vector<DeviceReading> readings;  // in order of time
  DeviceReading fullest;                // the one with most memory known to the replay
  // The first one after a context was made whose size nobody could measure; the first that was taken while nothing
  // changed, where there is one.
  DeviceReading first_with_context;
  bool has_first_with_context = false;
  std::vector<Neighbour> neighbours;  // largest peak first, once Finish was called
};

class CounterLog {
 public:
  static constexpr size_t kMaxReadings = 1024;
  static constexpr size_t kMaxNeighbours = 64;

  void Offer(const trace::Counters& counters);

  // The earliest sample that waits; UINT64_MAX = none.
  uint64_t next_ns() const { return pending_.empty() ? UINT64_MAX : pending_.front().time_ns(); }

  // What the replay knows while samples before `until_ns` are settled: the state before the event that comes at that
  // time, when CUDA's memory changed last, and when its next change, if the event is one, began.
  struct Instant {
    uint64_t until_ns = 0;
    uint64_t last_change_ns = 0;
    uint64_t next_change_ns = UINT64_MAX;
  };
  void Settle(const Instant& instant, const Accounts& accounts);

  void Finish();

  // nullptr: no sample of that device.
  const DeviceLog* Of(uint32_t slot) const {
    return slot < logs_.size() && logs_[slot].count > 0 ? &logs_[slot] : nullptr;
  }
  // The sample that says most about a moment: one taken while nothing changed before any other, of those one of the
  // same state of memory, and the nearest in time among equals.
  const DeviceReading* Best(uint32_t slot, uint64_t time_ns, uint64_t known, const DriverUse& driver) const;

  const std::vector<CrossedLimit>& crossed() const { return crossed_; }
  const std::string& source() const { return source_; }  // of the last sample; "" = there is none
  const std::string& source_error() const { return source_error_; }
  uint64_t samples() const { return samples_; }
  uint64_t took_ns() const { return took_ns_; }  // all of them
  uint64_t peak_rss() const { return peak_rss_; }
  uint64_t system_total() const { return system_total_; }
  uint64_t least_system_available() const { return least_system_available_; }

 private:
  void Add(const trace::Counters& counters, const trace::DeviceCounters& device, const Instant& instant,
           const Accounts& accounts);
  void AddNeighbours(const DeviceReading& reading, DeviceLog* log);

  std::deque<trace::Counters> pending_;
  std::vector<DeviceLog> logs_;  // by slot
  std::vector<CrossedLimit> crossed_;
  std::string source_, source_error_;
  uint64_t samples_ = 0, took_ns_ = 0;
  uint64_t peak_rss_ = 0, system_total_ = 0, least_system_available_ = UINT64_MAX;
};

// How this process's share of a device is made up at one instant. Pure functions.
//
//   MemoryBreakdown breakdown = TakeBreakdown(state, slot, time_ns, names);  // from the state itself
//   CompleteBreakdown(counters, slot, true, cupti, device, &breakdown);  // once all samples were read

MemoryBreakdown TakeBreakdown(const LiveState& state, uint32_t slot, uint64_t time_ns, const StackTable& names);

// Lays the sample that says most about the instant beside it. What changed between the two is added to what the sample
// says, so that a share can be stated for instants that nobody sampled. `all_calls_seen`: what is beyond the record
// shortly after a context was made is the context. `device` is CUDA's number, for what only CUPTI saw.
void CompleteBreakdown(const CounterLog& counters, uint32_t slot, bool all_calls_seen, const CuptiInfo& cupti,
                       int device, MemoryBreakdown* breakdown);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_COUNTERS_H_

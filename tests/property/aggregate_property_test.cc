// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// budget: one model of what was allocated, for all views.
//
// Random schedules over threads, devices, PyTorch's blocks and CUDA's memory: each view by stack must equal what a
// plain list of all allocations says, whatever is measured and filtered.

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "ledger/stacks/aggregate.h"
#include "replay/analyze.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using testing::TraceBuilder;

constexpr int kDevices = 2;
constexpr uint64_t kSlot = 1u << 20, kSlots = 16;  // places for blocks in a segment

struct Entry {
  bool is_block = false, is_segment = false;
  int device = 0;
  uint64_t address = 0, size = 0, stack = 0, alloc_ns = 0;
  uint32_t thread = 0;
  bool freed = false;
  uint64_t ended_ns = 0, others = 0;
  bool is_alive = true;
};

bool IsCounted(const Entry& entry, ViewMeasure measure) {
  if (entry.is_block) return measure == ViewMeasure::kAllocated || measure == ViewMeasure::kHeld;
  if (entry.is_segment) return measure == ViewMeasure::kReserved || measure == ViewMeasure::kTotal;
  return measure == ViewMeasure::kTotal || measure == ViewMeasure::kHeld;
}

// Everything that was ever allocated, in order.
class Log {
 public:
  size_t Add(const Entry& entry) {
    entries.push_back(entry);
    return entries.size() - 1;
  }
  void End(size_t i, uint64_t now_ns) {
    Entry& entry = entries[i];
    entry.is_alive = false;
    entry.freed = true;
    entry.ended_ns = now_ns;
    for (size_t later = i + 1; later < entries.size(); ++later) {
      const Entry& other = entries[later];
      entry.others += other.is_block == entry.is_block && other.thread == entry.thread && other.device == entry.device;
    }
  }
  uint64_t Live(int device, ViewMeasure measure) const {
    uint64_t bytes = 0;
    for (const Entry& entry : entries) {
      if (entry.is_alive && entry.device == device && IsCounted(entry, measure)) bytes += entry.size;
    }
    return bytes;
  }

  std::vector<Entry> entries;
};

struct Instant {
  uint64_t bytes = 0, time_ns = 0;
  std::vector<Entry> live;
};

class Schedule {
 public:
  explicit Schedule(uint32_t seed) : trace(1 + seed % 200), random_(seed) {
    for (uint32_t i = 0; i < 3; ++i) threads_.push_back(trace.Thread(100 + i, "worker"));
    for (uint32_t i = 0; i < 12; ++i) stacks_.push_back(trace.PythonStack({{"f" + std::to_string(i), "m.py", i + 1}}));
  }

  void Run(size_t steps) {
    for (size_t i = 0; i < steps; ++i) Step();
  }
  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }

  Log log;
  std::map<std::pair<int, ViewMeasure>, Instant> peaks;
  std::vector<std::pair<uint64_t, uint64_t>> taken_back;  // frees that failed: from the call to its correction
  TraceBuilder trace;

 private:
  void Check() {
    for (int device = 0; device < kDevices; ++device) {
      for (const ViewMeasure measure : {ViewMeasure::kAllocated, ViewMeasure::kReserved, ViewMeasure::kTotal}) {
        const uint64_t bytes = log.Live(device, measure);
        Instant& peak = peaks[{device, measure}];
        if (bytes <= peak.bytes) continue;
        peak = {bytes, trace.time_ns(), {}};
        for (const Entry& entry : log.entries) {
          if (entry.is_alive) peak.live.push_back(entry);
        }
      }
    }
  }

  void Allocate(Entry entry) {
    entry.thread = thread_;
    entry.stack = stacks_[Below(stacks_.size())];
    if (entry.is_block) {
      trace.TorchAlloc(entry.address, entry.size, entry.stack, entry.device);
    } else {
      trace.CudaAlloc(entry.address, entry.size, entry.stack, entry.device);
    }
    entry.alloc_ns = trace.time_ns();
    live_.push_back(log.Add(entry));
    Check();
  }

  void AllocateBlock(int device) {
    Entry block;
    block.is_block = true;
    block.device = device;
    block.size = 512 * (1 + Below(kSlot / 512));
    if (places_[device].empty()) {
      Entry segment;
      segment.is_segment = true;
      segment.device = device;
      segment.address = next_address_;
      segment.size = kSlot * kSlots;
      next_address_ += 2 * segment.size;
      for (uint64_t i = kSlots; i-- > 0;) places_[device].push_back(segment.address + i * kSlot);
      Allocate(segment);
    }
    block.address = places_[device].back();
    places_[device].pop_back();
    Allocate(block);
  }

  void Free() {
    if (live_.empty()) return;
    // Mostly what is young, as programs do.
    const size_t back = Below(3) == 0 ? Below(live_.size()) : Below(std::min<size_t>(live_.size(), 4));
    const size_t at = live_.size() - 1 - back;
    const Entry entry = log.entries[live_[at]];
    if (entry.is_segment) return;
    if (entry.is_block) {
      trace.TorchFree(entry.address, entry.size, entry.device);
      places_[entry.device].push_back(entry.address);
    } else if (!FreeOther(live_[at])) {
      return;
    }
    log.End(live_[at], trace.time_ns());
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(at));
    Check();
  }

  // False where the call failed, and was taken back.
  bool FreeOther(size_t i) {
    const Entry entry = log.entries[i];
    trace.CudaFree(entry.address, entry.device);
    if (Below(4) != 0) return true;
    const uint64_t called_ns = trace.time_ns();
    if (Below(2) == 0) {
      // Another thread in between sees the memory gone.
      log.entries[i].is_alive = false;
      const uint32_t thread = std::exchange(thread_, threads_[0] == thread_ ? threads_[1] : threads_[0]);
      trace.OnThread(thread_);
      AllocateBlock(entry.device);
      log.entries[i].is_alive = true;
      thread_ = thread;
      trace.OnThread(thread_);
    }
    EventRow row;
    row.kind = trace::FREE_FAILED;
    row.layer = trace::RUNTIME;
    row.device = entry.device;
    row.address = entry.address;
    row.result = 1;
    trace.Event(row);
    taken_back.emplace_back(called_ns, trace.time_ns());
    Check();
    return false;
  }

  void Step() {
    thread_ = threads_[Below(threads_.size())];
    trace.OnThread(thread_);
    const int device = static_cast<int>(Below(kDevices));
    const uint64_t what = Below(100);
    if (what < 42) {
      AllocateBlock(device);
    } else if (what < 55) {
      Entry other;
      other.device = device;
      other.size = 512 * (1 + Below(9000));
      other.address = next_address_;
      next_address_ += 8u << 20;
      Allocate(other);
    } else {
      Free();
    }
  }

  std::mt19937_64 random_;
  uint32_t thread_ = 1;
  std::vector<uint32_t> threads_;
  std::vector<uint64_t> stacks_;
  std::vector<size_t> live_;
  std::vector<uint64_t> places_[kDevices];
  uint64_t next_address_ = 0x7f0000000000;
};

using Key = std::tuple<uint64_t, int, uint32_t, uint64_t>;  // stack, device, thread, size
using Weights = std::map<Key, std::pair<uint64_t, uint64_t>>;

struct Window {
  uint64_t from_ns = 0, to_ns = UINT64_MAX;  // absolute
};

bool IsSelected(const Entry& entry, uint64_t ended_ns, const StackSelection& selection) {
  const uint64_t age_ns = ended_ns - entry.alloc_ns;
  return entry.size >= selection.min_bytes && entry.size <= selection.max_bytes && age_ns >= selection.min_age_ns &&
         age_ns <= selection.max_age_ns;
}

void AddTo(const Entry& entry, bool by_size, Weights* weights) {
  auto& [bytes, count] = (*weights)[{entry.stack, entry.device, entry.thread, by_size ? entry.size : 0}];
  bytes += entry.size;
  ++count;
}

Weights ExpectedPeak(const Schedule& schedule, const StackSelection& selection) {
  Weights weights;
  for (int device = 0; device < kDevices; ++device) {
    const ViewMeasure measure =
        selection.measure == ViewMeasure::kDefault ? ViewMeasure::kAllocated : selection.measure;
    const auto peak = schedule.peaks.find({device, measure});
    if (peak == schedule.peaks.end()) continue;
    for (const Entry& entry : peak->second.live) {
      if (entry.device != device || !IsCounted(entry, measure)) continue;
      if (IsSelected(entry, peak->second.time_ns, selection)) AddTo(entry, selection.by_size, &weights);
    }
  }
  return weights;
}

Weights Expected(const Schedule& schedule, const StackSelection& selection, const Window& window) {
  if (selection.mode == ViewMode::kPeak) return ExpectedPeak(schedule, selection);
  Weights weights;
  const uint64_t end_ns = std::min(schedule.trace.time_ns(), window.to_ns);
  const ViewMeasure measure = selection.measure == ViewMeasure::kDefault ? ViewMeasure::kHeld : selection.measure;
  for (const Entry& entry : schedule.log.entries) {
    if (!IsCounted(entry, measure) || entry.alloc_ns < window.from_ns || entry.alloc_ns > window.to_ns) continue;
    const bool freed = entry.freed && entry.ended_ns <= window.to_ns;
    if (selection.mode == ViewMode::kLeaks && freed) continue;
    if (selection.mode == ViewMode::kTemporary && (!freed || entry.others > selection.temporary_threshold)) continue;
    if (IsSelected(entry, freed ? entry.ended_ns : end_ns, selection)) AddTo(entry, selection.by_size, &weights);
  }
  return weights;
}

// Bytes by key that were held on average between two times.
std::map<Key, double> ExpectedAverage(const Schedule& schedule, const StackSelection& selection, uint64_t from_ns,
                                      uint64_t to_ns) {
  std::map<Key, double> averages;
  const ViewMeasure measure = selection.measure == ViewMeasure::kDefault ? ViewMeasure::kHeld : selection.measure;
  for (const Entry& entry : schedule.log.entries) {
    const uint64_t ended_ns = entry.freed ? std::min(entry.ended_ns, to_ns) : to_ns;
    if (!IsCounted(entry, measure) || entry.alloc_ns > to_ns || ended_ns < from_ns) continue;
    if (!IsSelected(entry, ended_ns, selection)) continue;
    const double held_ns = static_cast<double>(ended_ns - std::max(entry.alloc_ns, from_ns));
    const Key key{entry.stack, entry.device, entry.thread, selection.by_size ? entry.size : 0};
    averages[key] += static_cast<double>(entry.size) * held_ns / static_cast<double>(to_ns - from_ns);
  }
  return averages;
}

AggregatedStacks Aggregate(const std::string& path, const AnalyzeOptions& asked, const StackSelection& selection) {
  AggregatedStacks aggregated;
  const absl::StatusOr<Analysis> analysis = Analyze(path, asked, nullptr, nullptr, [&](const OpenTrace& trace) {
    aggregated = AggregateStacks(trace, asked, selection);
  });
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  return aggregated;
}

Weights ToMap(const AggregatedStacks& aggregated) {
  Weights weights;
  for (const AggregatedStack& stack : aggregated.stacks) {
    const Key key{stack.stack_id, stack.device, stack.thread, stack.size};
    EXPECT_EQ(weights.count(key), 0u);
    weights[key] = {stack.weight.bytes, stack.weight.count};
  }
  return weights;
}

class AggregateProperty : public ::testing::TestWithParam<uint32_t> {};

TEST_P(AggregateProperty, EqualsNaiveModel) {
  Schedule schedule(GetParam());
  schedule.Run(100 + schedule.Below(900));
  schedule.trace.End();
  const std::string path = schedule.trace.WriteTemporary();
  const uint64_t origin_ns = schedule.log.entries.front().alloc_ns;
  const uint64_t length_ns = schedule.trace.time_ns() - origin_ns;
  for (int round = 0; round < 60; ++round) {
    StackSelection selection;
    selection.mode = static_cast<ViewMode>(round % 4);
    selection.measure = static_cast<ViewMeasure>(schedule.Below(5));
    if (selection.mode == ViewMode::kPeak && selection.measure == ViewMeasure::kHeld)
      selection.measure = ViewMeasure::kDefault;
    selection.temporary_threshold = schedule.Below(4);
    selection.by_size = schedule.Below(2) == 0;
    if (schedule.Below(3) == 0) selection.min_bytes = schedule.Below(kSlot);
    if (schedule.Below(3) == 0) selection.max_bytes = schedule.Below(2 * kSlot);
    if (schedule.Below(3) == 0) selection.min_age_ns = schedule.Below(length_ns / 4 + 1);
    if (schedule.Below(3) == 0) selection.max_age_ns = schedule.Below(length_ns / 2 + 1);
    AnalyzeOptions asked;
    Window window;
    if (selection.mode != ViewMode::kPeak && schedule.Below(2) == 0) {
      asked.from_ns = schedule.Below(length_ns / 2 + 1);
      asked.to_ns = asked.from_ns + schedule.Below(length_ns);
      // While a free that will have failed is not taken back yet, what is alive depends on whom one asks.
      for (const auto& [called_ns, corrected_ns] : schedule.taken_back) {
        if (origin_ns + asked.to_ns >= called_ns && origin_ns + asked.to_ns < corrected_ns)
          asked.to_ns = corrected_ns - origin_ns;
      }
      window = {asked.from_ns == 0 ? 0 : origin_ns + asked.from_ns, origin_ns + asked.to_ns};
    }
    const Weights want = Expected(schedule, selection, window);
    const AggregatedStacks got = Aggregate(path, asked, selection);
    EXPECT_EQ(ToMap(got), want) << "seed " << GetParam() << ", " << ViewModeName(selection.mode) << " of "
                                << ViewMeasureName(selection.measure) << ", round " << round;
    Weight sum;
    for (const auto& [key, weight] : want) sum.Add({weight.first, weight.second});
    EXPECT_EQ(got.all, sum);
    EXPECT_EQ(got.merged, Weight{});
  }
  std::remove(path.c_str());
}

TEST_P(AggregateProperty, AverageEqualsNaiveModel) {
  Schedule schedule(GetParam() + 1000);
  schedule.Run(100 + schedule.Below(900));
  schedule.trace.End();
  const std::string path = schedule.trace.WriteTemporary();
  const uint64_t origin_ns = schedule.log.entries.front().alloc_ns;
  const uint64_t length_ns = schedule.log.entries.empty() ? 0 : schedule.trace.time_ns() - origin_ns;
  for (int round = 0; round < 20; ++round) {
    StackSelection selection;
    selection.mode = ViewMode::kAverage;
    selection.measure = static_cast<ViewMeasure>(schedule.Below(5));
    selection.by_size = schedule.Below(2) == 0;
    if (schedule.Below(3) == 0) selection.min_bytes = schedule.Below(kSlot);
    AnalyzeOptions asked;
    if (round % 2 == 1) {
      asked.from_ns = schedule.Below(length_ns / 2 + 1);
      asked.to_ns = asked.from_ns + 1 + schedule.Below(length_ns / 2 + 1);
      for (const auto& [called_ns, corrected_ns] : schedule.taken_back) {
        if (origin_ns + asked.to_ns >= called_ns && origin_ns + asked.to_ns < corrected_ns)
          asked.to_ns = corrected_ns - origin_ns;
      }
    }
    const AggregatedStacks got = Aggregate(path, asked, selection);
    const auto want = ExpectedAverage(schedule, selection, origin_ns + asked.from_ns,
                                      std::min(schedule.trace.time_ns(), origin_ns + std::min(asked.to_ns, length_ns)));
    EXPECT_EQ(got.stacks.size(), want.size()) << "seed " << GetParam() << ", round " << round;
    Weight sum;
    for (const AggregatedStack& stack : got.stacks) {
      const auto found = want.find({stack.stack_id, stack.device, stack.thread, stack.size});
      ASSERT_NE(found, want.end());
      EXPECT_NEAR(static_cast<double>(stack.weight.bytes), found->second, 1);
      sum.Add(stack.weight);
    }
    EXPECT_EQ(got.all, sum);
  }
  std::remove(path.c_str());
}

// Events that no program makes, in an order that none has.
std::string NonsenseTrace(uint32_t seed, std::map<int, Weight>* blocks) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random); };
  TraceBuilder trace(1 + seed % 70);
  for (uint64_t i = 0, events = 50 + below(1500); i < events; ++i) {
    EventRow row;
    row.layer = static_cast<trace::Layer>(1 + below(3));
    row.kind = below(5) < 3 ? trace::ALLOC : trace::FREE;
    if (below(3) == 0) row.kind = static_cast<trace::EventKind>(below(40));
    if (below(12) == 0) row.kind = trace::FREE_FAILED;
    row.memory = static_cast<trace::Memory>(below(14));
    row.device = static_cast<int>(below(kDevices));
    row.address = below(20) == 0 ? 0 : 0x1000 * (1 + below(40));
    row.size = 256 * below(40);
    row.handle = below(4);
    row.thread = 1 + static_cast<uint32_t>(below(3));
    row.stack = below(9);
    trace.Event(row);
    if (row.layer == trace::TORCH && row.kind == trace::ALLOC && row.address != 0)
      (*blocks)[row.device].Add({row.size, 1});
  }
  trace.End();
  return trace.WriteTemporary();
}

// Whatever the events, the views agree with the replay and with themselves.
TEST_P(AggregateProperty, NonsenseAddsUp) {
  std::map<int, Weight> blocks;
  const std::string path = NonsenseTrace(GetParam(), &blocks);
  for (const ViewMode mode :
       {ViewMode::kPeak, ViewMode::kLeaks, ViewMode::kTotal, ViewMode::kTemporary, ViewMode::kAverage}) {
    for (const ViewMeasure measure :
         {ViewMeasure::kAllocated, ViewMeasure::kReserved, ViewMeasure::kTotal, ViewMeasure::kHeld}) {
      if (mode == ViewMode::kPeak && measure == ViewMeasure::kHeld) continue;
      StackSelection selection;
      selection.mode = mode;
      selection.measure = measure;
      selection.most_stacks = 5;
      const AggregatedStacks got = Aggregate(path, {}, selection);
      Weight sum = got.merged;
      std::map<int, Weight> by_device;
      for (const AggregatedStack& stack : got.stacks) sum.Add(stack.weight);
      EXPECT_EQ(sum, got.all);
      selection.most_stacks = 1000;
      for (const AggregatedStack& stack : Aggregate(path, {}, selection).stacks)
        by_device[stack.device].Add(stack.weight);
      for (const AggregatedDevice& device : got.devices) {
        if (mode == ViewMode::kPeak || mode == ViewMode::kLeaks) {
          EXPECT_EQ(by_device[device.device].bytes, device.bytes)
              << ViewModeName(mode) << " " << ViewMeasureName(measure);
        }
        if (mode == ViewMode::kTotal && measure == ViewMeasure::kAllocated) {
          EXPECT_EQ(by_device[device.device], blocks[device.device]);
        }
      }
    }
  }
  std::remove(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(Seeds, AggregateProperty, ::testing::Range(1u, 25u));

}  // namespace
}  // namespace gpumem

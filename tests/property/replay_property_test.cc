// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Random schedules over threads, layers, devices and virtual memory: the replay must equal the naive model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "naive_model.h"
#include "replay/analyze.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using testing::NaiveModel;
using testing::NaiveSpan;
using testing::TraceBuilder;

constexpr int kDevices = 2;
constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kChunk = 2 * kMiB;

struct Expected {
  MeasureValues peaks[kDevices];
  std::map<uint64_t, uint64_t> at_peak_allocated[kDevices], at_peak_reserved[kDevices], at_peak_total[kDevices];
  FragmentationPoint at_peak[kDevices];
};

// Writes a schedule into a trace and into the model at the same time.
class Schedule {
 public:
  Schedule(uint32_t seed, uint32_t batch_events) : random_(seed), trace(batch_events) {
    for (int i = 0; i < 4; ++i) trace.Thread(100 + i, "worker");
    for (int i = 0; i < 40; ++i)
      stacks_.push_back(trace.PythonStack({{"f" + std::to_string(i), "m.py", static_cast<uint32_t>(i + 1)}}));
    for (int device = 0; device < kDevices; ++device) Reserve(device);
    if (Below(2) == 0) trace.Compress(Below(2) == 0 ? trace::CODEC_LZ4_BLOCK : trace::CODEC_ZSTD);
  }

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) Step();
  }

  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }

  Expected expected;
  NaiveModel model;
  uint64_t unknown_frees = 0;

 private:
  struct Arena {
    uint64_t base = 0;
    std::vector<uint64_t> chunks;  // handles
  };

  uint64_t Stack() { return stacks_[Below(stacks_.size())]; }

  void Check(int device) {
    const MeasureValues now = model.Values(device);
    MeasureValues& peak = expected.peaks[device];
    if (now.allocated > peak.allocated) {
      peak.allocated = now.allocated;
      expected.at_peak_allocated[device] = model.BlocksByStack(device);
    }
    if (now.reserved > peak.reserved) {
      peak.reserved = now.reserved;
      expected.at_peak_reserved[device] = model.SegmentsByStack(device, true);
      expected.at_peak[device] = model.Fragmentation(device);
    }
    if (now.total > peak.total) {
      peak.total = now.total;
      expected.at_peak_total[device] = model.SegmentsByStack(device, false);
    }
    peak.other = std::max(peak.other, now.other);
  }

  // An event of another thread may stand anywhere.
  void MaybeDisturb() {
    if (Below(4) != 0) return;
    const uint32_t thread = thread_;
    SetThread(4);
    const int device = static_cast<int>(Below(kDevices));
    if (Below(2) == 0 || others_.empty()) {
      AllocOther(device);
    } else {
      FreeOther();
    }
    SetThread(thread);
  }

  void SetThread(uint32_t thread) {
    thread_ = thread;
    trace.OnThread(thread);
  }

  void Reserve(int device) {
    arenas_[device].base = 0x600000000000 + static_cast<uint64_t>(device) * (1ull << 40);
    EventRow row;
    row.kind = trace::ADDRESS_RESERVE;
    row.layer = trace::DRIVER;
    row.memory = trace::VIRTUAL;
    row.address = arenas_[device].base;
    row.size = 1ull << 36;
    trace.Event(row);
  }

  uint64_t NewAddress(uint64_t size) {
    const uint64_t address = next_address_;
    next_address_ += (size + kChunk - 1) / kChunk * kChunk;
    return address;
  }

  void AllocOther(int device) {
    const uint64_t size = 512 * (1 + Below(8000));
    const uint64_t address = reusable_.empty() || Below(2) == 0 ? NewAddress(8000 * 512) : Take(&reusable_);
    const uint64_t stack = Stack();
    trace.CudaAlloc(address, size, stack, device);
    model.segments[address] = {size, stack, device};
    others_.push_back(address);
    Check(device);
  }

  uint64_t Take(std::vector<uint64_t>* list) {
    const size_t i = Below(list->size());
    const uint64_t value = (*list)[i];
    list->erase(list->begin() + static_cast<ptrdiff_t>(i));
    return value;
  }

  void FreeOther() {
    if (others_.empty()) return;
    const uint64_t address = Take(&others_);
    const int device = model.segments[address].device;
    trace.CudaFree(address, device);
    if (Below(8) == 0) {
      // The call failed: a correction follows on this thread.
      EventRow row;
      row.kind = trace::FREE_FAILED;
      row.layer = trace::RUNTIME;
      row.device = device;
      row.address = address;
      row.result = 1;
      trace.Event(row);
      others_.push_back(address);
      return;
    }
    model.segments.erase(address);
    reusable_.push_back(address);
    Check(device);
  }

  // A free place of `size` inside the segments, or none.
  uint64_t FindPlace(int device, uint64_t size) {
    for (const auto& [address, segment] : model.segments) {
      if (!segment.torch || segment.device != device || Below(3) == 0) continue;
      uint64_t at = address;
      const uint64_t end = address + segment.size;
      for (auto it = model.blocks.lower_bound(address); it != model.blocks.end() && it->first < end; ++it) {
        if (it->first - at >= size) return at;
        at = it->first + it->second.size;
      }
      // A block of the chunk before may reach in.
      auto before = model.blocks.lower_bound(address);
      if (before != model.blocks.begin() && (--before)->first + before->second.size > address) continue;
      if (end > at && end - at >= size) return at;
    }
    return 0;
  }

  void TorchAlloc(int device) {
    const uint64_t size = 512 * (1 + Below(Below(3) == 0 ? 6000 : 200));
    const uint64_t stack = Stack();
    uint64_t place = FindPlace(device, size);
    if (place == 0) place = Below(2) == 0 ? NewSegment(device, size) : Expand(device, size);
    trace.TorchAlloc(place, size, stack, device);
    model.blocks[place] = {size, stack, device};
    Check(device);
  }

  uint64_t NewSegment(int device, uint64_t size) {
    const uint64_t rounded = size <= kMiB ? kChunk : (size + kChunk - 1) / kChunk * kChunk;
    const uint64_t address = NewAddress(rounded);
    const uint64_t stack = Stack();
    trace.CudaAlloc(address, rounded, stack, device);
    model.segments[address] = {rounded, stack, device, true};
    Check(device);
    MaybeDisturb();
    return address;
  }

  void Vmm(trace::EventKind kind, int device, uint64_t address, uint64_t size, uint64_t handle, uint64_t stack = 0) {
    EventRow row;
    row.kind = kind;
    row.layer = trace::DRIVER;
    row.memory = kind == trace::MAP || kind == trace::UNMAP ? trace::VIRTUAL : trace::PHYSICAL;
    row.device = device;
    row.address = address;
    row.size = size;
    row.handle = handle;
    row.stack = stack;
    trace.Event(row);
  }

  uint64_t Expand(int device, uint64_t size) {
    Arena& arena = arenas_[device];
    const uint64_t stack = Stack();
    const size_t first = arena.chunks.size();
    const size_t count = (size + kChunk - 1) / kChunk;
    for (size_t i = 0; i < count; ++i) {
      arena.chunks.push_back(++next_handle_);
      Vmm(trace::PHYSICAL_CREATE, device, 0, kChunk, next_handle_, stack);
      MaybeDisturb();
    }
    // A segment's memory counts from its mapping on; for plain memory it would be its creation.
    for (size_t i = first; i < first + count; ++i) {
      const uint64_t address = arena.base + i * kChunk;
      Vmm(trace::MAP, device, address, kChunk, arena.chunks[i]);
      model.segments[address] = {kChunk, stack, device, true, true};
      Check(device);
      MaybeDisturb();
    }
    return arena.base + first * kChunk;
  }

  void TorchFree() {
    if (model.blocks.empty()) return;
    auto it = model.blocks.begin();
    std::advance(it, static_cast<ptrdiff_t>(Below(model.blocks.size())));
    const int device = it->second.device;
    trace.TorchFree(it->first, it->second.size, device);
    model.blocks.erase(it);
    Check(device);
  }

  bool IsEmpty(uint64_t address, uint64_t size) const {
    auto it = model.blocks.lower_bound(address + size);
    return it == model.blocks.begin() || (--it)->first + it->second.size <= address;
  }

  void EmptyCache() {
    std::vector<std::pair<uint64_t, NaiveSpan>> empty;
    for (const auto& [address, segment] : model.segments) {
      if (segment.torch && IsEmpty(address, segment.size)) empty.emplace_back(address, segment);
    }
    for (const auto& [address, segment] : empty) {
      if (!segment.mapped) {
        trace.CudaFree(address, segment.device);
        model.segments.erase(address);
      } else {
        Arena& arena = arenas_[segment.device];
        const uint64_t handle = arena.chunks[(address - arena.base) / kChunk];
        Vmm(trace::UNMAP, segment.device, address, kChunk, 0);
        Vmm(trace::PHYSICAL_RELEASE, segment.device, 0, 0, handle);
        model.segments.erase(address);
      }
      Check(segment.device);
    }
  }

  void Step() {
    SetThread(1 + static_cast<uint32_t>(Below(3)));
    const int device = static_cast<int>(Below(kDevices));
    const uint64_t what = Below(1000);
    if (what < 480) {
      TorchAlloc(device);
    } else if (what < 850) {
      TorchFree();
    } else if (what < 910) {
      AllocOther(device);
    } else if (what < 970) {
      FreeOther();
    } else if (what < 985) {
      EmptyCache();
    } else {
      trace.CudaFree(0x500000000000 + 512 * Below(100), 0);
      ++unknown_frees;
    }
  }

  std::mt19937_64 random_;
  uint32_t thread_ = 1;
  std::vector<uint64_t> stacks_, others_, reusable_;
  uint64_t next_address_ = 0x7f0000000000;
  uint64_t next_handle_ = 0x1000;
  Arena arenas_[kDevices];

 public:
  TraceBuilder trace;
};

std::map<uint64_t, uint64_t> ByStack(const LiveSet& set) {
  std::map<uint64_t, uint64_t> bytes;
  uint64_t sum = 0;
  for (const StackUse& use : set.stacks) {
    bytes[use.stack_id] += use.bytes;
    sum += use.bytes;
  }
  EXPECT_EQ(sum, set.bytes);
  return bytes;
}

void ExpectEqual(const FragmentationPoint& got, const FragmentationPoint& want) {
  EXPECT_EQ(got.reserved, want.reserved);
  EXPECT_EQ(got.allocated, want.allocated);
  EXPECT_EQ(got.free, want.free);
  EXPECT_EQ(got.largest_free_range, want.largest_free_range);
  EXPECT_EQ(got.free_ranges, want.free_ranges);
}

class ReplayProperty : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ReplayProperty, EqualsNaiveModel) {
  std::mt19937_64 random(GetParam());
  Schedule schedule(GetParam(), static_cast<uint32_t>(1 + random() % 300));
  schedule.Run(200 + static_cast<int>(random() % 2000));
  schedule.trace.End();
  const std::string path = schedule.trace.WriteTemporary();
  const absl::StatusOr<Analysis> analysis = Analyze(path);
  std::remove(path.c_str());
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_TRUE(analysis->complete);
  EXPECT_EQ(analysis->damage, "");
  uint64_t unknown_frees = 0;
  for (const DeviceAnalysis& device : analysis->devices) {
    SCOPED_TRACE(device.device);
    ASSERT_GE(device.device, 0);
    const MeasureValues& peaks = schedule.expected.peaks[device.device];
    EXPECT_EQ(device.peak_allocated.bytes, peaks.allocated);
    EXPECT_EQ(device.peak_reserved.bytes, peaks.reserved);
    EXPECT_EQ(device.peak_total.bytes, peaks.total);
    EXPECT_EQ(device.peak_other.bytes, peaks.other);
    EXPECT_EQ(ByStack(device.at_peak_allocated), schedule.expected.at_peak_allocated[device.device]);
    EXPECT_EQ(ByStack(device.at_peak_reserved), schedule.expected.at_peak_reserved[device.device]);
    EXPECT_EQ(ByStack(device.at_peak_total), schedule.expected.at_peak_total[device.device]);
    ExpectEqual(device.fragmentation.at_peak, schedule.expected.at_peak[device.device]);
    const MeasureValues end = schedule.model.Values(device.device);
    EXPECT_EQ(device.end.allocated, end.allocated);
    EXPECT_EQ(device.end.reserved, end.reserved);
    EXPECT_EQ(device.end.other, end.other);
    EXPECT_EQ(device.end.total, end.total);
    EXPECT_EQ(ByStack(device.leaks.at_end_torch), schedule.model.BlocksByStack(device.device));
    ExpectEqual(device.fragmentation.at_end, schedule.model.Fragmentation(device.device));
    unknown_frees += device.leaks.unknown_frees;
  }
  EXPECT_EQ(unknown_frees, schedule.unknown_frees);
}

// Truncating the schedule anywhere makes its end a random time: live sets and fragmentation are compared there.
TEST_P(ReplayProperty, EqualsNaiveModelAtRandomTimes) {
  for (uint32_t i = 0; i < 10; ++i) {
    Schedule schedule(GetParam() * 1000 + i, 64);
    schedule.Run(1 + static_cast<int>(schedule.Below(300)));
    const std::string path = schedule.trace.WriteTemporary();
    const absl::StatusOr<Analysis> analysis = Analyze(path);
    std::remove(path.c_str());
    ASSERT_TRUE(analysis.ok()) << analysis.status();
    EXPECT_FALSE(analysis->complete);
    for (const DeviceAnalysis& device : analysis->devices) {
      EXPECT_EQ(ByStack(device.leaks.at_end_torch), schedule.model.BlocksByStack(device.device));
      ExpectEqual(device.fragmentation.at_end, schedule.model.Fragmentation(device.device));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ReplayProperty, ::testing::Range(1u, 41u));

}  // namespace
}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Random programs whose recorder drops events at random: whatever is said of the peaks holds for the program, and no
// two numbers of an answer contradict each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "replay/analyze.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using testing::TraceBuilder;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kSegmentBytes = 32 * kMiB;

enum class Drops { kNone, kAllocs, kAll, kUnwritten };

// A program of one GPU, event by event, with what it holds after each.
class Program {
 public:
  Program(uint32_t seed, bool uses_torch) : random_(seed), uses_torch_(uses_torch) {
    for (int i = 0; i < 600; ++i) Step();
  }

  struct Moment {
    EventRow row;
    MeasureValues values;
  };
  const std::vector<Moment>& moments() const { return moments_; }
  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }

 private:
  void Step() {
    const uint64_t what = Below(uses_torch_ ? 8 : 3);
    if (what == 0) {
      const uint64_t address = 0x10000000000 + Below(64) * kSegmentBytes;
      if (others_.emplace(address, kMiB * (1 + Below(8))).second)
        Add(trace::ALLOC, trace::RUNTIME, address, others_[address]);
    } else if (what == 1 && !others_.empty()) {
      const auto it = std::next(others_.begin(), static_cast<ptrdiff_t>(Below(others_.size())));
      const uint64_t address = it->first;
      others_.erase(it);
      Add(trace::FREE, trace::RUNTIME, address, 0);
    } else if (uses_torch_ && what < 6) {
      AllocBlock();
    } else if (uses_torch_ && !blocks_.empty()) {
      FreeBlock();
    }
  }

  void AllocBlock() {
    const uint64_t segment = 0x70000000000 + Below(6) * kSegmentBytes, address = segment + Below(32) * kMiB;
    if (blocks_.contains(address)) return;
    if (!segments_.contains(segment)) {
      segments_[segment] = 0;
      Add(trace::ALLOC, trace::RUNTIME, segment, kSegmentBytes);
    }
    ++segments_[segment];
    blocks_[address] = segment;
    Add(trace::ALLOC, trace::TORCH, address, kMiB);
  }

  void FreeBlock() {
    const auto it = std::next(blocks_.begin(), static_cast<ptrdiff_t>(Below(blocks_.size())));
    const auto [address, segment] = *it;
    blocks_.erase(it);
    Add(trace::FREE, trace::TORCH, address, kMiB);
    if (--segments_[segment] != 0 || Below(2) == 0) return;
    segments_.erase(segment);
    Add(trace::FREE, trace::RUNTIME, segment, 0);
  }

  void Add(trace::EventKind kind, trace::Layer layer, uint64_t address, uint64_t size) {
    Moment moment;
    moment.row.kind = kind;
    moment.row.layer = layer;
    moment.row.device = 0;
    moment.row.address = address;
    moment.row.size = size;
    moment.values.allocated = blocks_.size() * kMiB;
    moment.values.reserved = segments_.size() * kSegmentBytes;
    for (const auto& [place, bytes] : others_) moment.values.other += bytes;
    moment.values.total = moment.values.reserved + moment.values.other;
    moments_.push_back(moment);
  }

  std::mt19937 random_;
  bool uses_torch_;
  std::map<uint64_t, uint64_t> segments_, blocks_, others_;
  std::vector<Moment> moments_;
};

struct Recorded {
  MeasureValues peaks, stated;  // of the program; the highest that PyTorch said
  uint64_t dropped = 0;
  Analysis analysis;
};

// Which events a recorder drops, in bursts.
std::vector<bool> Dropped(Program* program, Drops drops) {
  const std::vector<Program::Moment>& moments = program->moments();
  std::vector<bool> is_dropped(moments.size());
  uint64_t burst = 0;
  for (size_t i = 0; i < moments.size(); ++i) {
    if (burst == 0 && program->Below(40) == 0) burst = 1 + program->Below(12);
    if (burst == 0 || drops == Drops::kNone) continue;
    --burst;
    is_dropped[i] = drops != Drops::kAllocs || moments[i].row.kind == trace::ALLOC;
  }
  return is_dropped;
}

void Count(const EventRow& dropped, Drops drops, trace::Losses* losses) {
  if (drops == Drops::kUnwritten) {
    losses->set_unwritten_events(losses->unwritten_events() + 1);
  } else if (dropped.kind == trace::ALLOC) {
    losses->set_dropped_allocs(losses->dropped_allocs() + 1);
  } else {
    losses->set_dropped_frees(losses->dropped_frees() + 1);
  }
}

void State(const MeasureValues& values, TraceBuilder* trace, MeasureValues* stated) {
  trace::Counters counters;
  counters.set_time_ns(trace->time_ns());
  counters.add_devices()->set_torch_allocated_bytes(values.allocated);
  counters.mutable_devices(0)->set_torch_reserved_bytes(values.reserved);
  trace->Counters(counters);
  stated->allocated = std::max(stated->allocated, values.allocated);
  stated->reserved = std::max(stated->reserved, values.reserved);
}

// As the recorder writes it: what was dropped up to some time behind a batch is said behind that batch.
Recorded Record(Program* program, Drops drops) {
  Recorded recorded;
  TraceBuilder trace(100'000);
  trace::Losses losses;
  const std::vector<Program::Moment>& moments = program->moments();
  const std::vector<bool> is_dropped = Dropped(program, drops);
  const Program::Moment* last_report = nullptr;
  size_t counted = 0;  // drops that losses have
  uint64_t batch = 0;
  for (size_t i = 0; i < moments.size(); ++i) {
    const Program::Moment& moment = moments[i];
    for (uint64_t MeasureValues::*each :
         {&MeasureValues::allocated, &MeasureValues::reserved, &MeasureValues::other, &MeasureValues::total})
      recorded.peaks.*each = std::max(recorded.peaks.*each, moment.values.*each);
    if (is_dropped[i]) {
      ++recorded.dropped;
    } else {
      trace.Event(moment.row);
      if (moment.row.layer == trace::TORCH) last_report = &moment;
      ++batch;
    }
    const bool is_last = i + 1 == moments.size();
    if (batch < 20 && !is_last) continue;
    batch = 0;
    trace.FlushBatch();
    if (last_report != nullptr && (program->Below(4) == 0 || is_last))
      State(last_report->values, &trace, &recorded.stated);
    for (const size_t ahead = std::min(moments.size(), i + 1 + program->Below(30)); counted < ahead; ++counted) {
      if (is_dropped[counted]) Count(moments[counted].row, drops, &losses);
    }
    trace.Losses(losses);
  }
  const std::string path = trace.End().WriteTemporary();
  absl::StatusOr<Analysis> analysis = Analyze(path, {});
  std::remove(path.c_str());
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  if (analysis.ok()) recorded.analysis = *std::move(analysis);
  return recorded;
}

void ExpectNoContradiction(const DeviceAnalysis& device) {
  EXPECT_GE(device.peak_total.bytes, device.peak_reserved.bytes);
  EXPECT_GE(device.peak_total.bytes, device.peak_allocated.bytes);
  EXPECT_GE(device.peak_reserved.bytes, device.peak_allocated.bytes);
  EXPECT_LE(device.end.allocated, device.peak_allocated.bytes);
  EXPECT_LE(device.end.reserved, device.peak_reserved.bytes);
  EXPECT_LE(device.end.total, device.peak_total.bytes);
  for (const TimelinePoint& point : device.timeline) {
    EXPECT_LE(point.max.allocated, device.peak_allocated.bytes);
    EXPECT_LE(point.max.reserved, device.peak_reserved.bytes);
    EXPECT_LE(point.max.total, device.peak_total.bytes);
  }
  for (const LiveSet* live : {&device.at_peak_allocated, &device.at_peak_reserved, &device.at_peak_total}) {
    const uint64_t sum = std::accumulate(live->stacks.begin(), live->stacks.end(), uint64_t{0},
                                         [](uint64_t all, const StackUse& use) { return all + use.bytes; });
    EXPECT_EQ(sum, live->bytes);
  }
  EXPECT_GE(device.at_peak_allocated.bytes, device.peak_allocated.bytes);
}

void ExpectTrue(const Recorded& recorded) {
  for (const DeviceAnalysis& device : recorded.analysis.devices) {
    ExpectNoContradiction(device);
    EXPECT_GE(device.peak_allocated.bytes, recorded.stated.allocated);
    EXPECT_GE(device.peak_reserved.bytes, recorded.stated.reserved);
    if (device.bound == PeakBound::kAbout) {
      EXPECT_EQ(recorded.peaks.allocated, 0u) << "PyTorch says its totals";
      continue;
    }
    EXPECT_LE(device.peak_allocated.bytes, recorded.peaks.allocated);
    EXPECT_LE(device.peak_reserved.bytes, recorded.peaks.reserved);
    EXPECT_LE(device.peak_total.bytes, recorded.peaks.total);
    if (device.bound != PeakBound::kExact) continue;
    EXPECT_EQ(recorded.dropped, 0u);
    EXPECT_EQ(device.peak_allocated.bytes, recorded.peaks.allocated);
    EXPECT_EQ(device.peak_reserved.bytes, recorded.peaks.reserved);
    EXPECT_EQ(device.peak_total.bytes, recorded.peaks.total);
  }
}

TEST(LostEventsPropertyTest, WhatIsSaidOfPeaksHolds) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    for (const Drops drops : {Drops::kNone, Drops::kAllocs, Drops::kAll, Drops::kUnwritten}) {
      for (const bool uses_torch : {true, false}) {
        SCOPED_TRACE(::testing::Message()
                     << "seed " << seed << ", drops " << static_cast<int>(drops) << ", torch " << uses_torch);
        Program program(seed, uses_torch);
        const Recorded recorded = Record(&program, drops);
        ASSERT_EQ(recorded.analysis.devices.size(), 1u);
        ExpectTrue(recorded);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace gpumem

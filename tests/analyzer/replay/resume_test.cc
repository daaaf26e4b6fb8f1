// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A trace that starts in the middle, with what was alive then.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "replay/analyze.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::kMiB;
using testing::TraceBuilder;

constexpr uint64_t kCachedSegment = uint64_t{1} << 30, kEmpty = uint64_t{2} << 30, kOther = uint64_t{3} << 30;

void AddTo(trace::EventBatch* batch, uint64_t* before, trace::Layer layer, uint64_t address, uint64_t size) {
  batch->set_count(batch->count() + 1);
  batch->set_first_time_ns(1000);
  batch->add_time_delta_ns(0);
  batch->add_kind(trace::ALLOC);
  batch->add_layer(layer);
  batch->add_address_delta(static_cast<int64_t>(address - *before));
  batch->add_size(size);
  *before = address;
}

// Two segments of PyTorch, one of them without a block, and something else; then a block goes and another comes.
std::string WritePart() {
  TraceBuilder trace;
  trace.header().mutable_part()->set_series(7);
  trace.header().mutable_part()->set_number(2);
  trace.header().mutable_part()->set_events_before(100);
  trace.FlushBatch();
  trace::Packet packet;
  packet.mutable_live_snapshot()->set_begins(true);
  trace::EventBatch* const batch = packet.mutable_live_snapshot()->mutable_events();
  uint64_t before = 0;
  AddTo(batch, &before, trace::RUNTIME, kEmpty, 20 * kMiB);
  AddTo(batch, &before, trace::RUNTIME, kOther, 3 * kMiB);
  AddTo(batch, &before, trace::RUNTIME, kCachedSegment, 2 * kMiB);
  AddTo(batch, &before, trace::TORCH, kCachedSegment, kMiB);
  packet.mutable_live_snapshot()->add_torch_segments(0);
  packet.mutable_live_snapshot()->add_torch_segments(2);
  trace.Append(packet);
  trace.TorchFree(kCachedSegment, kMiB).TorchAlloc(kCachedSegment, kMiB / 2);
  trace.End();
  return trace.WriteTemporary();
}

TEST(ResumeTest, WhatWasAliveCountsFromTheStart) {
  const std::string path = WritePart();
  const absl::StatusOr<Analysis> analysis = Analyze(path, AnalyzeOptions(), nullptr, nullptr);
  std::remove(path.c_str());
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->devices.size(), 1u);
  const DeviceAnalysis& device = analysis->devices[0];
  EXPECT_EQ(device.end.allocated, kMiB / 2);
  EXPECT_EQ(device.end.reserved, 22 * kMiB) << "with the segment that has no block";
  EXPECT_EQ(device.end.other, 3 * kMiB);
  EXPECT_EQ(device.leaks.unknown_frees, 0u);
  EXPECT_EQ(device.peak_allocated.bytes, kMiB) << "before the first event";
  EXPECT_EQ(device.at_peak_allocated.bytes, kMiB);
  EXPECT_EQ(device.at_peak_allocated.block_count, 1u);
  EXPECT_EQ(analysis->events.torch, 2u) << "what was alive is not an event";
  EXPECT_EQ(analysis->events.runtime, 0u);
  EXPECT_THAT(analysis->notes, Contains(HasSubstr("file 2 of a series, with what was alive then; 100 events")));
}

}  // namespace
}  // namespace gpumem

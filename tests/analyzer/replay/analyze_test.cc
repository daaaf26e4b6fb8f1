// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/analyze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyze_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kMiB;
using testing::TraceBuilder;

constexpr uint64_t kBase = 0x7f0000000000;

EventRow Row(trace::EventKind kind, trace::Memory memory, uint64_t address, uint64_t size, int device = 0) {
  EventRow row;
  row.kind = kind;
  row.layer = trace::RUNTIME;
  row.memory = memory;
  row.device = device;
  row.address = address;
  row.size = size;
  return row;
}

TEST(AnalyzeTest, TellsSegmentsFromOtherMemory) {
  TraceBuilder trace;
  trace.CudaAlloc(kBase, 20 * kMiB, 1).TorchAlloc(kBase, 3 * kMiB, 2).CudaAlloc(kBase + 64 * kMiB, 5 * kMiB, 3);
  trace.TorchFree(kBase, 3 * kMiB).CudaFree(kBase).End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.devices.size(), 1u);
  const DeviceAnalysis& device = analysis.devices[0];
  EXPECT_EQ(device.peak_allocated.bytes, 3 * kMiB);
  EXPECT_EQ(device.peak_allocated.event_index, 1u);
  EXPECT_EQ(device.peak_reserved.bytes, 20 * kMiB);
  EXPECT_EQ(device.peak_reserved.event_index, 0u) << "at the segment's own allocation";
  EXPECT_EQ(device.peak_other.bytes, 5 * kMiB);
  EXPECT_EQ(device.peak_total.bytes, 25 * kMiB);
  EXPECT_EQ(device.end.total, 5 * kMiB);
  EXPECT_EQ(device.leaks.at_end_cuda.bytes, 5 * kMiB);
  EXPECT_EQ(device.at_peak_reserved.stacks.at(0).stack_id, 1u);
  EXPECT_EQ(device.at_peak_allocated.stacks.at(0).stack_id, 2u);
  EXPECT_EQ(analysis.events.torch, 2u);
  EXPECT_EQ(analysis.events.runtime, 3u);
  EXPECT_TRUE(analysis.complete);
}

TEST(AnalyzeTest, ABlockThatComesLaterStillMakesASegment) {
  TraceBuilder trace;
  trace.CudaAlloc(kBase, 20 * kMiB).CudaAlloc(kBase + 64 * kMiB, kMiB).TorchAlloc(kBase, 512).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(analysis.devices.at(0).end.reserved, 20 * kMiB);
  EXPECT_EQ(analysis.devices.at(0).end.other, kMiB);
}

TEST(AnalyzeTest, KeepsManagedPinnedAndImportedMemoryApart) {
  TraceBuilder trace;
  trace.Event(Row(trace::ALLOC, trace::MANAGED, kBase, 1000))
      .Event(Row(trace::ALLOC, trace::HOST_PINNED, kBase + kMiB, 2000, -1));
  trace.Event(Row(trace::IMPORT, trace::DEVICE, kBase + 2 * kMiB, 3000))
      .Event(Row(trace::ALLOC, trace::ARRAY, kBase, 4000));
  trace.Event(Row(trace::HOST_REGISTER, trace::HOST_PINNED, kBase + 3 * kMiB, 500, -1));
  trace.Event(Row(trace::FREE, trace::ARRAY, kBase, 0))
      .Event(Row(trace::FREE, trace::HOST_PINNED, kBase + kMiB, 0, -1))
      .End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(analysis.managed_end, 1000u) << "the array's handle equals its address";
  EXPECT_EQ(analysis.host_pinned_peak, 2500u);
  EXPECT_EQ(analysis.host_pinned_end, 500u);
  EXPECT_EQ(analysis.imported_end, 3000u);
  ASSERT_EQ(analysis.devices.size(), 1u);
  EXPECT_EQ(analysis.devices[0].peak_total.bytes, 4000u);
  EXPECT_EQ(analysis.devices[0].end.total, 0u);
}

TEST(AnalyzeTest, DeviceResetTakesEverythingOfThatDevice) {
  TraceBuilder trace;
  trace.CudaAlloc(kBase, 2 * kMiB).TorchAlloc(kBase, 512).CudaAlloc(kBase + 4 * kMiB, kMiB, 0, 1);
  trace.Event(Row(trace::DEVICE_RESET, trace::DEVICE, 0, 0)).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(analysis.devices.at(0).end.total, 0u);
  EXPECT_EQ(analysis.devices.at(0).end.allocated, 0u);
  EXPECT_EQ(analysis.devices.at(1).end.total, kMiB);
}

TEST(AnalyzeTest, CountsUnknownFreesAndImpliesLostOnes) {
  TraceBuilder trace;
  trace.CudaFree(0).CudaFree(kBase).TorchFree(kBase, 512).CudaAlloc(kBase, kMiB).CudaAlloc(kBase, 2 * kMiB).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(analysis.devices.at(0).leaks.unknown_frees, 2u) << "freeing null is none";
  EXPECT_EQ(analysis.devices.at(0).end.total, 2 * kMiB);
  EXPECT_THAT(analysis.notes, Contains(HasSubstr("still in use")));
}

TEST(AnalyzeTest, FreesThatWereRefused) {
  TraceBuilder trace;
  const auto refuse = [&](uint64_t address, int device) {
    EventRow row;
    row.kind = trace::FREE_FAILED;
    row.layer = trace::RUNTIME;
    row.device = device;
    row.address = address;
    row.result = 1;
    trace.CudaFree(address, device).Event(row);
  };
  trace.CudaAlloc(kBase, 3 * kMiB).CudaAlloc(kBase + 8 * kMiB, kMiB);
  refuse(kBase + 8 * kMiB, 0);  // stays
  trace.CudaFree(kBase);
  refuse(kBase, -1);              // again, as the recorder has it: the device is not known
  refuse(kBase + 64 * kMiB, -1);  // never allocated
  trace.End();
  const LeakReport leaks = AnalyzeTrace(trace).devices.at(0).leaks;
  EXPECT_EQ(leaks.refused_frees, 3u);
  EXPECT_EQ(leaks.refused_unknown_frees, 2u);
  EXPECT_EQ(leaks.unknown_frees, 0u) << "what was taken back is in one place";
  EXPECT_EQ(leaks.at_end_cuda.bytes, kMiB);
}

TEST(AnalyzeTest, ASegmentTakesTheBlocksWhoseFreesWereLost) {
  TraceBuilder trace;
  trace.CudaAlloc(kBase, 2 * kMiB).TorchAlloc(kBase, 512).CudaFree(kBase).End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_EQ(analysis.devices.at(0).end.allocated, 0u);
  EXPECT_THAT(analysis.notes, Contains(HasSubstr("went with the segment")));
}

TEST(AnalyzeTest, FindsTheBlockThatPinsASegment) {
  TraceBuilder trace;
  trace.CudaAlloc(kBase, 20 * kMiB)
      .TorchAlloc(kBase, 2 * kMiB)
      .TorchAlloc(kBase + 2 * kMiB, 4 * kMiB, 9)
      .TorchFree(kBase, 2 * kMiB);
  trace.CudaAlloc(kBase + 32 * kMiB, 2 * kMiB)
      .TorchAlloc(kBase + 32 * kMiB, 512)
      .TorchAlloc(kBase + 33 * kMiB, 512)
      .End();
  const Analysis analysis = AnalyzeTrace(trace);
  const Fragmentation& fragmentation = analysis.devices.at(0).fragmentation;
  ASSERT_EQ(fragmentation.pins_at_end.size(), 1u);
  const PinningBlock& pin = fragmentation.pins_at_end[0];
  EXPECT_EQ(pin.block_address, kBase + 2 * kMiB);
  EXPECT_EQ(pin.segment_free, 16 * kMiB);
  EXPECT_EQ(pin.returnable, 20 * kMiB);
  EXPECT_EQ(pin.stack_id, 9u);
  EXPECT_EQ(fragmentation.at_end.free_ranges, 4u);
  EXPECT_EQ(fragmentation.at_end.largest_free_range, 14 * kMiB);
  ASSERT_EQ(fragmentation.pools.size(), 2u);
  EXPECT_EQ(fragmentation.pools[0].pool, "large");
  EXPECT_EQ(fragmentation.pools[1].pool, "small");
  EXPECT_EQ(fragmentation.pools[1].at_end.reserved, 2 * kMiB);
}

TEST(AnalyzeTest, GroupsPinsByTheirStacks) {
  TraceBuilder trace;
  const auto segment = [](uint64_t i) { return kBase + i * 64 * kMiB; };
  for (uint64_t i = 0; i < 40; ++i) trace.CudaAlloc(segment(i), 30 * kMiB).TorchAlloc(segment(i), 2 * kMiB, 7);
  trace.CudaAlloc(segment(40), 30 * kMiB).TorchAlloc(segment(40), kMiB, 7).TorchAlloc(segment(40) + kMiB, kMiB, 8);
  trace.CudaAlloc(segment(41), 30 * kMiB).TorchAlloc(segment(41), 20 * kMiB, 7);  // is used
  trace.CudaAlloc(segment(42), 30 * kMiB);                                        // holds nothing
  trace.TorchAlloc(segment(42), kMiB, 1).TorchFree(segment(42), kMiB).End();
  const Fragmentation fragmentation = AnalyzeTrace(trace).devices.at(0).fragmentation;
  ASSERT_EQ(fragmentation.groups_at_end.size(), 2u);
  const PinGroup& alone = fragmentation.groups_at_end[0];
  EXPECT_EQ(alone.stack_ids, std::vector<uint64_t>{7});
  EXPECT_EQ(alone.blocks, 40u);
  EXPECT_EQ(alone.block_bytes, 80 * kMiB);
  EXPECT_EQ(alone.segments, 40u);
  EXPECT_EQ(alone.returnable, 1200 * kMiB);
  const PinGroup& together = fragmentation.groups_at_end[1];
  EXPECT_EQ(together.stack_ids, (std::vector<uint64_t>{7, 8}));
  EXPECT_EQ(together.blocks, 2u);
  EXPECT_EQ(together.returnable, 30 * kMiB);
  EXPECT_EQ(fragmentation.at_end.empty_cache, 30 * kMiB);
}

TEST(AnalyzeTest, MeasuresRoundingWhereTheRequestIsKnown) {
  TraceBuilder trace;
  trace.CudaAlloc(kBase, 2 * kMiB);
  EventRow block = Row(trace::ALLOC, trace::DEVICE, kBase, 1024);
  block.layer = trace::TORCH;
  block.requested_size = 700;
  trace.Event(block).End();
  const Analysis analysis = AnalyzeTrace(trace);
  const FragmentationPoint& point = analysis.devices.at(0).fragmentation.at_end;
  EXPECT_TRUE(point.requested_known);
  EXPECT_EQ(point.rounding, 324u);
}

TEST(AnalyzeTest, TheEndIsThatOfTheProgramsOwnCode) {
  TraceBuilder trace;
  trace.AtTime(1000).CudaAlloc(kBase, 10 * kMiB, 1);
  trace.TorchAlloc(kBase, 4096, 7);
  trace.TorchAlloc(kBase + 8192, 512, 8);
  EventRow end = Row(trace::MARK, trace::DEVICE, 0, 0);
  end.layer = trace::LAYER_UNSPECIFIED;
  end.handle = kProgramEndMark;
  trace.AtTime(50000).Event(end);
  trace.AtTime(60000).TorchFree(kBase, 4096).CudaAlloc(kBase + 32 * kMiB, kMiB, 3).End();
  const Analysis analysis = AnalyzeTrace(trace);
  const DeviceAnalysis& device = analysis.devices.at(0);
  EXPECT_EQ(analysis.program_end_ns, 50000u);
  EXPECT_EQ(device.end.allocated, 4608u);
  EXPECT_EQ(device.leaks.at_end_torch.bytes, 4608u);
  EXPECT_EQ(device.leaks.freed_by_teardown, 4096u);
  EXPECT_EQ(device.fragmentation.at_end.reserved, 10 * kMiB);
  EXPECT_TRUE(analysis.marks.empty()) << "it is not a mark of the program's";
  AnalyzeOptions later;
  later.to_ns = 100000;
  EXPECT_EQ(AnalyzeTrace(trace, later).devices.at(0).leaks.at_end_torch.bytes, 4608u);
}

TEST(AnalyzeTest, LooksAtAWindow) {
  TraceBuilder trace;
  trace.AtTime(1000).CudaAlloc(kBase, 10 * kMiB, 1).AtTime(2000).CudaFree(kBase);
  trace.AtTime(3000)
      .CudaAlloc(kBase, 4 * kMiB, 2)
      .AtTime(4000)
      .CudaAlloc(kBase + 32 * kMiB, kMiB, 3)
      .AtTime(5000)
      .CudaFree(kBase)
      .End();
  AnalyzeOptions options;
  options.from_ns = 1500;
  options.to_ns = 3500;
  const Analysis analysis = AnalyzeTrace(trace, options);
  const DeviceAnalysis& device = analysis.devices.at(0);
  EXPECT_EQ(device.peak_total.bytes, 5 * kMiB);
  EXPECT_EQ(device.end.total, 5 * kMiB) << "not freed before the window's end";
  EXPECT_EQ(device.leaks.growth.size(), 2u);
  EXPECT_TRUE(AnalyzeTrace(trace).devices.at(0).leaks.growth.empty()) << "no two times were asked for";
  EXPECT_TRUE(analysis.complete);
}

TEST(AnalyzeTest, FiltersByLayer) {
  TraceBuilder trace;
  trace.CudaAlloc(kBase, 20 * kMiB).TorchAlloc(kBase, kMiB).CudaAlloc(kBase + 64 * kMiB, 5 * kMiB);
  EventRow driver = Row(trace::ALLOC, trace::DEVICE, kBase + 128 * kMiB, 7 * kMiB);
  driver.layer = trace::DRIVER;
  trace.Event(driver).End();
  AnalyzeOptions options;
  options.layer = LayerFilter::kDriver;
  EXPECT_EQ(AnalyzeTrace(trace, options).devices.at(0).peak_total.bytes, 7 * kMiB);
  options.layer = LayerFilter::kRuntime;
  EXPECT_EQ(AnalyzeTrace(trace, options).devices.at(0).peak_total.bytes, 25 * kMiB);
  options.layer = LayerFilter::kTorch;
  const DeviceAnalysis torch = AnalyzeTrace(trace, options).devices.at(0);
  EXPECT_EQ(torch.peak_total.bytes, 20 * kMiB);
  EXPECT_EQ(torch.peak_allocated.bytes, kMiB);
}

TEST(AnalyzeTest, FiltersWhatIsInNoDevicesShareByLayer) {
  EventRow pinned = Row(trace::ALLOC, trace::HOST_PINNED, kBase, 3 * kMiB);
  EventRow managed = Row(trace::ALLOC, trace::MANAGED, kBase + 64 * kMiB, 5 * kMiB);
  EventRow import = Row(trace::IMPORT, trace::DEVICE, kBase + 128 * kMiB, 7 * kMiB);
  pinned.layer = trace::DRIVER;
  TraceBuilder trace;
  trace.Event(pinned).Event(managed).Event(import).End();
  AnalyzeOptions options;
  const auto peaks = [&](LayerFilter layer) {
    options.layer = layer;
    const Analysis analysis = AnalyzeTrace(trace, options);
    return std::vector<uint64_t>{analysis.host_pinned_peak, analysis.managed_peak, analysis.imported_peak};
  };
  EXPECT_THAT(peaks(LayerFilter::kAll), ElementsAre(3 * kMiB, 5 * kMiB, 7 * kMiB));
  EXPECT_THAT(peaks(LayerFilter::kDriver), ElementsAre(3 * kMiB, 0, 0));
  EXPECT_THAT(peaks(LayerFilter::kRuntime), ElementsAre(0, 5 * kMiB, 7 * kMiB));
}

TEST(AnalyzeTest, ComparesWithPyTorchsOwnTotals) {
  for (const uint64_t reported : {kMiB, 3 * kMiB}) {
    TraceBuilder trace;
    trace.CudaAlloc(kBase, 20 * kMiB).TorchAlloc(kBase, kMiB);
    trace::Counters counters;
    counters.add_devices()->set_torch_allocated_bytes(reported);
    counters.mutable_devices(0)->set_torch_reserved_bytes(20 * kMiB);
    trace.Counters(counters).End();
    const bool disagrees = ::testing::Value(AnalyzeTrace(trace).notes, Contains(HasSubstr("disagrees")));
    EXPECT_EQ(disagrees, reported != kMiB);
  }
}

TEST(AnalyzeTest, AnalyzesTheFirstOfSeveralProcesses) {
  TraceBuilder first, second;
  first.CudaAlloc(kBase, kMiB).End();
  second.header().set_program("other");
  second.CudaAlloc(kBase, 9 * kMiB).End();
  const std::string path = first.WriteTemporary();
  FILE* const file = fopen(path.c_str(), "ab");
  const std::string bytes = second.Bytes();
  fwrite(bytes.data(), 1, bytes.size(), file);
  fclose(file);
  const absl::StatusOr<Analysis> analysis = Analyze(path);
  std::remove(path.c_str());
  ASSERT_TRUE(analysis.ok());
  EXPECT_EQ(analysis->devices.at(0).peak_total.bytes, kMiB);
  EXPECT_THAT(analysis->notes, Contains(HasSubstr("2 processes")));
  EXPECT_EQ(analysis->damage, "");
}

TEST(AnalyzeTest, AnswersForAProcessThatDidNothing) {
  TraceBuilder trace;
  trace.End();
  const Analysis analysis = AnalyzeTrace(trace);
  EXPECT_TRUE(analysis.complete);
  EXPECT_TRUE(analysis.devices.empty());
}

}  // namespace
}  // namespace gpumem

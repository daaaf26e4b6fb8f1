// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "answers/report/fixture.h"
#include "example_forecast.h"
#include "testing/trace_builder.h"

namespace gpumem::plan {
namespace {

using testing::kGiB;
using testing::kMiB;

DeviceAnalysis DeviceWith(int number, uint64_t total) {
  DeviceAnalysis device;
  device.device = number;
  device.peak_allocated.bytes = total / 2;
  device.peak_reserved.bytes = total - kMiB;
  device.peak_other.bytes = kMiB;
  device.peak_total.bytes = total;
  return device;
}

TEST(PeaksOfTest, NothingRecordedIsNoDevice) { EXPECT_EQ(PeaksOf({}).device, -1); }

TEST(PeaksOfTest, WithoutABreakdownItIsWhatWasRecorded) {
  Analysis analysis;
  analysis.devices = {DeviceWith(0, kGiB)};
  const RunPeaks peaks = PeaksOf(analysis);
  EXPECT_EQ(peaks.device, 0);
  EXPECT_EQ(peaks.allocated, kGiB / 2);
  EXPECT_EQ(peaks.reserved, kGiB - kMiB);
  EXPECT_EQ(peaks.process, kGiB);
  EXPECT_EQ(peaks.context, 0u);
  EXPECT_EQ(peaks.elsewhere, kMiB);
}

TEST(PeaksOfTest, AddsWhatTheDriverTakes) {
  Analysis analysis;
  analysis.devices = {DeviceWith(0, kGiB)};
  MemoryBreakdown& breakdown = analysis.devices[0].breakdown_at_peak;
  breakdown.any = true;
  breakdown.values.total = kGiB;
  breakdown.values.other = 3 * kMiB;
  breakdown.driver.contexts = 512 * kMiB;
  breakdown.driver.modules = 2 * kMiB;
  RunPeaks peaks = PeaksOf(analysis);
  EXPECT_EQ(peaks.process, kGiB + 514 * kMiB);
  EXPECT_EQ(peaks.context, 514 * kMiB);
  EXPECT_EQ(peaks.elsewhere, 3 * kMiB);
  // The device shows more than all that is known.
  breakdown.process = kGiB + 600 * kMiB;
  peaks = PeaksOf(analysis);
  EXPECT_EQ(peaks.process, kGiB + 600 * kMiB);
  EXPECT_EQ(peaks.context, 600 * kMiB);
  // Less: it was looked at at another time.
  breakdown.process = kGiB / 2;
  EXPECT_EQ(PeaksOf(analysis).process, kGiB + 514 * kMiB);
}

TEST(PeaksOfTest, IsOfTheDeviceThatNeedsMost) {
  Analysis analysis;
  analysis.devices = {DeviceWith(0, kGiB), DeviceWith(3, 3 * kGiB), DeviceWith(4, 2 * kGiB)};
  EXPECT_EQ(PeaksOf(analysis).device, 3);
  EXPECT_EQ(PeaksOf(analysis).process, 3 * kGiB);
  analysis.devices = {DeviceWith(2, 0)};
  EXPECT_EQ(PeaksOf(analysis).device, 2);
}

TEST(ForecastTest, OnlySomeEndsAreTooEarly) {
  for (const RunEnd end : {RunEnd::kTimedOut, RunEnd::kSpins, RunEnd::kFailed}) EXPECT_TRUE(IsCutShort(end));
  for (const RunEnd end : {RunEnd::kStable, RunEnd::kSteps, RunEnd::kEnded}) EXPECT_FALSE(IsCutShort(end));
}

TEST(ForecastTest, WithoutADeviceThereIsNoAnswer) {
  EXPECT_FALSE(Forecast{}.answered());
  EXPECT_FALSE(testing::CapabilityForecast().answered());
}

using ::testing::IsEmpty;
using testing::Native;
using testing::Python;
using testing::TraceBuilder;

ResolvedFrame Operator(const std::string& name) {
  return Native("at::_ops::" + name + "::call(at::Tensor const&)", "libtorch_cpu.so");
}
const ResolvedFrame kCopyKernel = Native("at::native::copy_kernel_cuda(at::TensorIterator&, bool)", "libtorch_cuda.so");
const ResolvedFrame kLine = Python("train", "/job/train.py", 12);

struct Reported {
  HostReadKind kind;
  std::string operation;
  bool operator==(const Reported&) const = default;
};

Reported Tell(std::vector<ResolvedFrame> frames, uint64_t largest) {
  Reported reported{};
  reported.kind = KindOfRead(frames, largest, &reported.operation);
  return reported;
}

TEST(KindOfReadTest, TellsByTheOperators) {
  const auto item = Operator("_local_scalar_dense"), outer = Operator("item");
  EXPECT_EQ(Tell({kCopyKernel, item, outer, kLine}, 4), (Reported{HostReadKind::kValue, "aten::_local_scalar_dense"}));
  EXPECT_EQ(Tell({item, outer, Operator("is_nonzero"), kLine}, 1),
            (Reported{HostReadKind::kBranch, "aten::is_nonzero"}));
  EXPECT_EQ(Tell({item, Operator("equal"), kLine}, 1), (Reported{HostReadKind::kBranch, "aten::equal"}));
  EXPECT_EQ(Tell({kCopyKernel, Operator("copy_"), Operator("_to_copy"), kLine}, 4096),
            (Reported{HostReadKind::kCopy, "aten::copy_"}));
  EXPECT_EQ(Tell({kCopyKernel, kLine}, 4), (Reported{HostReadKind::kValue, ""}));
  EXPECT_EQ(Tell({}, 4096), (Reported{HostReadKind::kCopy, ""}));
}

TEST(KindOfReadTest, KnowsTheOperatorsWhoseSizesTheDataDecide) {
  for (const char* name : {"nonzero", "unique_dim", "_unique2", "unique_consecutive", "masked_select", "index_Tensor",
                           "index_put_", "repeat_interleave_Tensor", "bincount", "argwhere", "where"})
    EXPECT_EQ(Tell({kCopyKernel, Operator(name), kLine}, 8),
              (Reported{HostReadKind::kShape, std::string("aten::") + name}));
  for (const char* name : {"add_Tensor", "index_select", "mean", "isnan"})
    EXPECT_EQ(Tell({kCopyKernel, Operator(name), kLine}, 8).kind, HostReadKind::kValue) << name;
}

// What is asked for is known by the innermost operator with such sizes; a branch outside of it only reads the result.
TEST(KindOfReadTest, TheInnermostShapeCounts) {
  EXPECT_EQ(Tell({Operator("nonzero"), Operator("index_Tensor"), Operator("is_nonzero"), kLine}, 8),
            (Reported{HostReadKind::kShape, "aten::nonzero"}));
  EXPECT_EQ(Tell({Operator("is_nonzero"), Operator("nonzero"), kLine}, 8),
            (Reported{HostReadKind::kShape, "aten::nonzero"}));
}

TEST(KindOfReadTest, WhatTheProgramCalledIsNotTheReads) {
  EXPECT_EQ(Tell({Operator("item"), kLine, Operator("nonzero")}, 8), (Reported{HostReadKind::kValue, "aten::item"}));
}

TEST(KindOfReadTest, OneValueIsAsLongAsAComplexNumber) {
  EXPECT_EQ(Tell({kLine}, 16).kind, HostReadKind::kValue);
  EXPECT_EQ(Tell({kLine}, 17).kind, HostReadKind::kCopy);
}

HostReadCounts CountIn(TraceBuilder* trace) {
  const std::string path = trace->WriteTemporary();
  HostReadCounts counts;
  const auto look = [&](const OpenTrace& open) { counts = CountHostReads(open); };
  EXPECT_TRUE(Analyze(path, {}, nullptr, nullptr, look).ok());
  std::remove(path.c_str());
  return counts;
}

void Read(TraceBuilder* trace, uint64_t stack, uint64_t bytes) {
  EventRow row;
  row.kind = trace::HOST_READ;
  row.thread = 1;
  row.address = 0x7f0000000000;
  row.size = bytes;
  row.stack = stack;
  trace->Event(row);
}

TEST(CountHostReadsTest, CountsByStackThroughAllBatches) {
  TraceBuilder trace(4);  // events in a batch
  const uint64_t here = trace.PythonStack({{"train", "train.py", 12}});
  const uint64_t there = trace.PythonStack({{"evaluate", "train.py", 40}});
  trace.CudaAlloc(0x7f0000000000, 2 << 20);
  for (int i = 0; i < 10; ++i) {
    Read(&trace, here, i == 5 ? 400 : 4);
    trace.TorchAlloc(0x7f0000000000, 512).TorchFree(0x7f0000000000, 512);
  }
  Read(&trace, there, 8);
  Read(&trace, 0, 1);
  trace.End();
  const HostReadCounts counts = CountIn(&trace);
  ASSERT_EQ(counts.size(), 3u);
  std::vector<std::tuple<uint64_t, uint64_t, uint64_t>> found;
  for (const auto& [stack, count] : counts) found.emplace_back(count.count, count.bytes, count.largest);
  EXPECT_THAT(found, ::testing::UnorderedElementsAre(std::tuple(10u, 436u, 400u), std::tuple(1u, 8u, 8u),
                                                     std::tuple(1u, 1u, 1u)));
  EXPECT_EQ(counts.at(0).count, 1u);
}

TEST(CountHostReadsTest, ATraceWithoutAnyHasNone) {
  TraceBuilder trace;
  trace.CudaAlloc(0x7f0000000000, 2 << 20).End();
  EXPECT_THAT(CountIn(&trace), IsEmpty());
  TraceBuilder empty;
  empty.End();
  EXPECT_THAT(CountIn(&empty), IsEmpty());
}

TEST(DescribeHostReadsTest, JoinsALineAndPutsWhatDecidesFirst) {
  testing::Example example = testing::TrainingExample();
  const auto item = Operator("item");
  const ResolvedFrame loss = Python("train", "/job/train.py", 20), mask = Python("train", "/job/train.py", 30);
  example.stacks.stacks = {{1, {item, loss}},
                           {2, {item, Native("PyNumber_Float", "python3"), loss}},
                           {3, {Operator("nonzero"), mask}},
                           {4, {kCopyKernel, Operator("copy_"), loss}},
                           {5, {item, Operator("is_nonzero"), mask}},
                           {6, {item, mask}}};
  const HostReadCounts counts = {{1, {7, 28, 4}},    {2, {3, 12, 4}},  {3, {2, 16, 8}},
                                 {4, {1, 400, 400}}, {5, {50, 50, 1}}, {6, {11, 44, 4}}};
  const std::vector<HostRead> reads = DescribeHostReads(counts, example.input());
  ASSERT_EQ(reads.size(), 5u);
  EXPECT_EQ(reads[0].kind, HostReadKind::kShape);
  EXPECT_EQ(reads[0].operation, "aten::nonzero");
  EXPECT_EQ(reads[0].site, "job/train.py:30 train");
  EXPECT_EQ(reads[1].kind, HostReadKind::kBranch);
  EXPECT_EQ(reads[2].kind, HostReadKind::kValue);
  EXPECT_EQ(reads[2].count, 11u);
  EXPECT_EQ(reads[3].count, 10u);  // both ways to line 20
  EXPECT_EQ(reads[3].bytes, 40u);
  EXPECT_EQ(reads[4].kind, HostReadKind::kCopy);
}

}  // namespace
}  // namespace gpumem::plan

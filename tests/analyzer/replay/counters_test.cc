// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/counters.h"

#include <gtest/gtest.h>

#include "analyze_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using testing::kMiB;

constexpr uint64_t kMillisecond = 1'000'000, kSecond = 1000 * kMillisecond;

trace::Counters SampleAt(uint64_t time_ns, uint64_t own, uint64_t used) {
  trace::Counters counters;
  counters.set_time_ns(time_ns);
  counters.set_took_ns(kMillisecond);
  counters.set_cause(trace::PERIODIC);
  counters.set_source("NVML 1");
  trace::DeviceCounters* device = counters.add_devices();
  device->set_device(0);
  device->set_own_bytes(own);
  device->set_own_process(trace::OWN_BY_PID);
  device->set_used_bytes(used);
  device->set_total_bytes(1000 * kMiB);
  device->set_free_bytes(1000 * kMiB - used);
  device->set_other_count(0);
  return counters;
}

EventRow TimedRow(uint32_t kind, uint64_t time_ns, uint64_t address, uint64_t size, uint32_t memory = trace::DEVICE) {
  EventRow row;
  row.kind = static_cast<trace::EventKind>(kind);
  row.layer = trace::RUNTIME;
  row.device = 0;
  row.memory = static_cast<trace::Memory>(memory);
  row.time_ns = time_ns;
  row.address = address;
  row.size = size;
  return row;
}

constexpr uint64_t kAddress = 0x7f0000000000;

TEST(Counters, ASampleIsComparedWithTheStateOfItsTime) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(TimedRow(trace::ALLOC, kSecond, kAddress, 100 * kMiB));
  trace.FlushBatch();
  trace.Counters(SampleAt(2 * kSecond, 612 * kMiB, 700 * kMiB));  // before events of its own batch
  trace.Event(TimedRow(trace::ALLOC, kSecond + kMillisecond, kAddress + (1 << 30), 50 * kMiB));
  trace.Event(TimedRow(trace::FREE, 3 * kSecond, kAddress, 0));
  trace.End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.devices.size(), 1u);
  const DeviceUse& use = analysis.devices[0].use;
  ASSERT_EQ(use.readings.size(), 1u);
  EXPECT_EQ(use.readings[0].known, 150 * kMiB);
  EXPECT_TRUE(use.readings[0].steady);

  const MemoryBreakdown& peak = analysis.devices[0].breakdown_at_peak;
  EXPECT_TRUE(peak.same_state);
  EXPECT_EQ(peak.process, 612 * kMiB);
  EXPECT_EQ(peak.unexplained, static_cast<int64_t>(462 * kMiB));
  const MemoryBreakdown& end = analysis.devices[0].breakdown_at_end;
  EXPECT_FALSE(end.same_state);
  EXPECT_EQ(end.process, 512 * kMiB);  // what was freed since is taken off
  EXPECT_EQ(analysis.sampling.samples, 1u);
  EXPECT_EQ(analysis.sampling.source, "NVML 1");
}

TEST(Counters, ASampleBehindTheWindowSaysNothingOfItsEnd) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(TimedRow(trace::ALLOC, kSecond, kAddress, 100 * kMiB));
  trace.Event(TimedRow(trace::ALLOC, 3 * kSecond, kAddress + (1 << 30), 200 * kMiB));
  trace.FlushBatch();
  trace.Counters(SampleAt(4 * kSecond, 812 * kMiB, 812 * kMiB));
  trace.End();
  AnalyzeOptions options;
  options.to_ns = kSecond;  // after the first event
  const Analysis analysis = AnalyzeTrace(trace, options);
  ASSERT_EQ(analysis.devices.size(), 1u);
  const MemoryBreakdown& end = analysis.devices[0].breakdown_at_end;
  EXPECT_EQ(end.values.total, 100 * kMiB);
  EXPECT_FALSE(end.has_reading);
  EXPECT_EQ(end.process, kNotStated);
  EXPECT_EQ(AnalyzeTrace(trace).devices[0].breakdown_at_end.process, 812 * kMiB);
}

TEST(Counters, WhatWasTakenWhileMemoryChangedCountsLess) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(TimedRow(trace::ALLOC, kSecond, kAddress, 100 * kMiB));
  trace.FlushBatch();
  trace.Counters(SampleAt(2 * kSecond, 600 * kMiB, 600 * kMiB));
  EventRow slow = TimedRow(trace::ALLOC, 2 * kSecond + 2 * kMillisecond, kAddress + (1 << 30), 100 * kMiB);
  slow.duration_ns = 10 * kMillisecond;  // in progress while the device was asked
  trace.Event(slow);
  trace.FlushBatch();
  trace.Counters(SampleAt(9 * kSecond, 700 * kMiB, 800 * kMiB));
  trace.End();
  const DeviceAnalysis device = AnalyzeTrace(trace).devices.at(0);
  ASSERT_EQ(device.use.readings.size(), 2u);
  EXPECT_FALSE(device.use.readings[0].steady);
  EXPECT_TRUE(device.use.readings[1].steady);
  EXPECT_EQ(device.breakdown_at_peak.reading.time_ns, 9 * kSecond);
  EXPECT_EQ(device.use.peak_used, 800 * kMiB);
  EXPECT_EQ(device.use.peak_own, 700 * kMiB);
}

TEST(Counters, RoundingAndPoolsAreExplained) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(TimedRow(trace::ALLOC, kSecond, kAddress, 3 * kMiB));              // 4 MiB of pages
  trace.Event(TimedRow(trace::ALLOC, kSecond + 1, kAddress + (1 << 30), 1000));  // these two share one page
  trace.Event(TimedRow(trace::ALLOC, kSecond + 2, kAddress + (1 << 30) + 1024, 100));
  trace.Event(TimedRow(trace::ALLOC, kSecond + 3, kAddress + (2l << 30), 5 * kMiB, trace::STREAM_ORDERED));
  trace.FlushBatch();
  trace::Counters sample = SampleAt(2 * kSecond, 38 * kMiB, 38 * kMiB);
  sample.mutable_devices(0)->set_pool_reserved_bytes(32 * kMiB);
  trace.Counters(sample);
  trace.End();
  const MemoryBreakdown end = AnalyzeTrace(trace).devices.at(0).breakdown_at_end;
  EXPECT_EQ(end.driver.Rounding(), kMiB + 2 * kMiB - 1100);
  EXPECT_EQ(end.pool_idle, 27 * kMiB);
  EXPECT_EQ(end.process, 38 * kMiB);
  EXPECT_EQ(end.unexplained, 0);
}

TEST(Counters, ContextsAndModulesCountWhileTheyLive) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  EventRow context = TimedRow(20, kSecond, 0, 400 * kMiB), module = TimedRow(22, kSecond + 1, 0, 16 * kMiB);
  module.handle = 77;
  EventRow unmeasured = TimedRow(22, kSecond + 2, 0, 0);
  unmeasured.handle = 78;
  trace.Event(context).Event(module).Event(unmeasured).Event(TimedRow(trace::ALLOC, kSecond + 3, kAddress, 2 * kMiB));
  EventRow unload = TimedRow(23, 2 * kSecond, 0, 0);
  unload.handle = 77;
  trace.Event(unload);
  trace.End();
  const DeviceAnalysis device = AnalyzeTrace(trace).devices.at(0);
  EXPECT_EQ(device.breakdown_at_peak.driver.contexts, 400 * kMiB);
  EXPECT_EQ(device.breakdown_at_peak.driver.modules, 16 * kMiB);
  EXPECT_EQ(device.breakdown_at_peak.driver.modules_not_measured, 1u);
  EXPECT_EQ(device.breakdown_at_end.driver.modules, 0u);
  EXPECT_EQ(device.breakdown_at_end.driver.module_count, 1u);
  EXPECT_EQ(device.peak_total.bytes, 2 * kMiB);  // they are in none of the series
}

TEST(Counters, AContextGrowsAndGoesWhole) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(TimedRow(trace::CONTEXT_CREATE, kSecond, 0, 400 * kMiB));
  trace.Event(TimedRow(trace::CONTEXT_GROWTH, kSecond + 1, 0, 16 * kMiB));
  trace.Event(TimedRow(trace::CONTEXT_GROWTH, kSecond + 2, 0, 8 * kMiB));
  trace.Event(TimedRow(trace::ALLOC, kSecond + 3, kAddress, 2 * kMiB));
  trace.Event(TimedRow(trace::CONTEXT_DESTROY, 2 * kSecond, 0, 0));
  trace.End();
  const DeviceAnalysis device = AnalyzeTrace(trace).devices.at(0);
  EXPECT_EQ(device.breakdown_at_peak.driver.contexts, 424 * kMiB);
  EXPECT_EQ(device.breakdown_at_peak.driver.context_count, 1u);
  EXPECT_EQ(device.breakdown_at_end.driver.contexts, 0u);
  EXPECT_EQ(device.residual.peak_context_bytes, 424 * kMiB);
  EXPECT_EQ(device.residual.context_bytes, 0u);
}

// What a kernel's threads take goes with the context, and a larger kernel takes the place of a smaller one.
TEST(Counters, LocalMemoryIsThatOfTheLargestKernel) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(TimedRow(trace::CONTEXT_CREATE, kSecond, 0, 400 * kMiB));
  EventRow small = TimedRow(trace::LOCAL_MEMORY, kSecond + 1, 0, 16 * kMiB);
  small.requested_size = 2048;
  EventRow large = TimedRow(trace::LOCAL_MEMORY, kSecond + 2, 0, 48 * kMiB);
  large.requested_size = 4096;
  trace.Event(small).Event(large).Event(TimedRow(trace::ALLOC, kSecond + 3, kAddress, 2 * kMiB));
  trace.Event(TimedRow(trace::CONTEXT_DESTROY, 2 * kSecond, 0, 0));
  trace.End();
  const DeviceAnalysis device = AnalyzeTrace(trace).devices.at(0);
  EXPECT_EQ(device.breakdown_at_peak.driver.local, 48 * kMiB);
  EXPECT_EQ(device.breakdown_at_peak.driver.local_thread, 4096u);
  EXPECT_EQ(device.breakdown_at_peak.driver.Stated(), 448 * kMiB);
  EXPECT_EQ(device.breakdown_at_end.driver.local, 0u);
}

// A context that nobody could measure, 100 MiB on top, and what a library has besides (30 MiB) later on.
testing::TraceBuilder FirstContext() {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(TimedRow(trace::CONTEXT_CREATE, kSecond, 0, 0));
  trace.Event(TimedRow(trace::ALLOC, kSecond + 1, kAddress, 100 * kMiB));
  trace.FlushBatch();
  trace.Counters(SampleAt(2 * kSecond, 614 * kMiB, 700 * kMiB));
  trace.Event(TimedRow(trace::ALLOC, 3 * kSecond, kAddress + (1 << 30), 20 * kMiB));
  trace.FlushBatch();
  trace.Counters(SampleAt(4 * kSecond, 664 * kMiB, 700 * kMiB));
  return trace;
}

TEST(Counters, TheFirstContextIsEstimatedByTheFirstSample) {
  testing::TraceBuilder trace = FirstContext();
  const MemoryBreakdown end = AnalyzeTrace(trace.End()).devices.at(0).breakdown_at_end;
  EXPECT_EQ(end.context_estimate, 514 * kMiB);
  EXPECT_EQ(end.driver.contexts, 0u) << "nothing was measured";
  EXPECT_EQ(end.unexplained, static_cast<int64_t>(30 * kMiB));
  EXPECT_EQ(end.process, 664 * kMiB);
}

TEST(Counters, NothingIsEstimatedWhereCallsWerePassedBy) {
  testing::TraceBuilder trace = FirstContext();
  trace::Losses losses;
  trace::Unseen* unseen = losses.add_unseen();
  unseen->set_cause(trace::UNSEEN_BOUND_PAST);
  unseen->set_object("/lib/libplugin.so");
  unseen->set_function_count(9);
  unseen->add_functions("cuMemAlloc_v2");
  losses.add_unseen()->set_object("a");  // of a cause that this version does not know
  const Analysis analysis = AnalyzeTrace(trace.Losses(losses).End());
  const MemoryBreakdown& end = analysis.devices.at(0).breakdown_at_end;
  EXPECT_EQ(end.context_estimate, 0u);
  EXPECT_EQ(end.unexplained, static_cast<int64_t>(544 * kMiB));
  ASSERT_EQ(analysis.losses.unseen.size(), 2u);
  EXPECT_EQ(analysis.losses.unseen[0].cause, UnseenCalls::Cause::kBoundPast);
  EXPECT_EQ(analysis.losses.unseen[1].cause, UnseenCalls::Cause::kUnknown);
  EXPECT_EQ(analysis.losses.Total(), 0u) << "how many calls is not known";
  ASSERT_GE(analysis.notes.size(), 2u);
  EXPECT_NE(analysis.notes[0].find("/lib/libplugin.so calls CUDA past the recorder (cuMemAlloc_v2 and 8 more)"),
            std::string::npos)
      << analysis.notes[0];
}

TEST(Counters, ANegativeRestIsSaid) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(TimedRow(trace::ALLOC, kSecond, kAddress, 100 * kMiB));
  trace.FlushBatch();
  trace.Counters(SampleAt(2 * kSecond, 60 * kMiB, 60 * kMiB));
  trace.End();
  const MemoryBreakdown end = AnalyzeTrace(trace).devices.at(0).breakdown_at_end;
  EXPECT_EQ(end.process, 60 * kMiB);
  EXPECT_EQ(end.unexplained, -static_cast<int64_t>(40 * kMiB));
}

// By how far free memory falls while a module loads: with a neighbour on the device that is the neighbour's as well.
TEST(Counters, LoadedCodeIsNotMeasuredBesideNeighbours) {
  for (const bool shared : {false, true}) {
    testing::TraceBuilder trace;
    trace.Device(0, "GPU", 1000 * kMiB);
    trace.Event(TimedRow(trace::CONTEXT_CREATE, kSecond, 0, 0));
    trace.Event(TimedRow(trace::MODULE_LOAD, kSecond + 1, 0, 300 * kMiB));
    trace.Event(TimedRow(trace::ALLOC, kSecond + 2, kAddress, 100 * kMiB));
    trace.FlushBatch();
    trace::Counters sample = SampleAt(2 * kSecond, 700 * kMiB, 900 * kMiB);
    if (shared) sample.mutable_devices(0)->add_others()->set_used_bytes(200 * kMiB);
    trace.Counters(sample);
    const MemoryBreakdown end = AnalyzeTrace(trace.End()).devices.at(0).breakdown_at_end;
    EXPECT_EQ(end.driver.modules, shared ? 0u : 300 * kMiB);
    EXPECT_EQ(end.context_estimate, shared ? 600 * kMiB : 300 * kMiB);
    EXPECT_EQ(end.process, 700 * kMiB);
    EXPECT_EQ(end.unexplained, 0);
  }
}

TEST(Counters, NeighboursAndLimits) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(TimedRow(trace::ALLOC, kSecond, kAddress, kMiB));
  trace.FlushBatch();
  for (uint64_t i = 0; i < 3; ++i) {
    trace::Counters sample = SampleAt((2 + i) * kSecond, kMiB, kMiB);
    trace::DeviceProcess* other = sample.mutable_devices(0)->add_others();
    other->set_pid(i == 2 ? 78 : 77);
    other->set_used_bytes((10 - i) * kMiB);
    if (i == 0) other->set_name("server");
    if (i == 1) sample.add_crossings()->set_percent(85);
    trace.Counters(sample);
  }
  trace.End();
  const Analysis analysis = AnalyzeTrace(trace);
  const std::vector<Neighbour>& neighbours = analysis.devices.at(0).use.neighbours;
  ASSERT_EQ(neighbours.size(), 2u);
  EXPECT_EQ(neighbours[0].name, "server");
  EXPECT_EQ(neighbours[0].peak, 10 * kMiB);
  EXPECT_EQ(neighbours[0].last, 9 * kMiB);
  EXPECT_EQ(neighbours[0].last_ns, 3 * kSecond);
  ASSERT_EQ(analysis.sampling.crossed.size(), 1u);
  EXPECT_EQ(analysis.sampling.crossed[0].percent, 85u);
  EXPECT_EQ(analysis.sampling.crossed[0].time_ns, 3 * kSecond);
}

TEST(Counters, StaysBoundedAndKeepsTheFullest) {
  CounterLog log;
  Accounts accounts;
  for (uint64_t i = 1; i <= 10 * CounterLog::kMaxReadings; ++i) {
    log.Offer(SampleAt(i * kSecond, i * kMiB, i * kMiB));
    accounts.device(1).values.total = i == 5 ? 1000 * kMiB : i;
    log.Settle({i * kSecond + 1, 0, UINT64_MAX}, accounts);
  }
  const DeviceLog* kept = log.Of(1);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->count, 10 * CounterLog::kMaxReadings);
  EXPECT_LE(kept->readings.size(), CounterLog::kMaxReadings);
  EXPECT_EQ(kept->readings.back().time_ns, 10 * CounterLog::kMaxReadings * kSecond);
  EXPECT_EQ(kept->fullest.time_ns, 5 * kSecond);
  EXPECT_EQ(log.Best(1, 6 * kSecond, 1000 * kMiB, {})->time_ns, 5 * kSecond);
  EXPECT_EQ(log.Of(2), nullptr);
  EXPECT_EQ(log.Best(2, 0, 0, {}), nullptr);
}

TEST(Counters, HostileNumbersDoNoHarm) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(TimedRow(trace::ALLOC, kSecond, kAddress, kMiB));
  trace.FlushBatch();
  trace::Counters sample = SampleAt(UINT64_MAX, UINT64_MAX - 1, 0);
  sample.set_took_ns(UINT64_MAX);
  sample.mutable_devices(0)->set_device(INT32_MAX);
  trace.Counters(sample);
  trace::Counters second = SampleAt(0, UINT64_MAX - 1, UINT64_MAX - 1);
  second.mutable_devices(0)->set_pool_reserved_bytes(UINT64_MAX - 1);
  trace.Counters(second);
  trace.End();
  const Analysis analysis = AnalyzeTrace(trace);
  ASSERT_EQ(analysis.devices.size(), 1u);
  const MemoryBreakdown& end = analysis.devices[0].breakdown_at_end;
  EXPECT_EQ(end.Explained(), 2 * kMiB) << "what was recorded stands";
  if (end.process == kNotStated) {
    EXPECT_EQ(end.unexplained, 0);
  } else {
    EXPECT_EQ(end.Explained() + static_cast<uint64_t>(end.unexplained), end.process);
  }
}

}  // namespace
}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What only CUPTI saw, in the reconciliation with the device.

#include "replay/cupti_info.h"

#include <gtest/gtest.h>

#include "analyze_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using testing::kMiB;

constexpr uint64_t kCuptiSecond = 1'000'000'000;
constexpr uint64_t kCuptiAddress = 0x7f0000000000;
constexpr uint32_t kDevice = 3, kStatic = 6;  // CUpti_ActivityMemoryKind

EventRow CuptiRow(trace::EventKind kind, uint64_t time_ns, uint64_t address, uint64_t size) {
  EventRow row;
  row.kind = kind;
  row.layer = trace::DRIVER;
  row.device = 0;
  row.time_ns = time_ns;
  row.address = address;
  row.size = size;
  return row;
}

trace::CuptiRecord* AddRecord(trace::Cupti* cupti, uint32_t operation, uint32_t memory, uint64_t time_ns,
                              uint64_t address, uint64_t bytes) {
  trace::CuptiRecord* record = cupti->add_records();
  record->set_operation(operation);
  record->set_memory(memory);
  record->set_time_ns(time_ns);
  record->set_address(address);
  record->set_bytes(bytes);
  return record;
}

// A run of 10 s: 100 MiB by a call that both saw, a module that was measured to take 20 MiB, 8 MiB of static variables
// within it and 4 MiB beside it, and 16 MiB past the recorder until second 6.
trace::Cupti Recorded() {
  trace::Cupti cupti;
  cupti.set_state(trace::CUPTI_ENDED);
  cupti.set_library("/lib/libcupti.so.13");
  cupti.set_began_ns(kCuptiSecond / 2);
  cupti.set_complete_until_ns(20 * kCuptiSecond);
  AddRecord(&cupti, 1, kDevice, kCuptiSecond + 5, kCuptiAddress, 100 * kMiB);
  AddRecord(&cupti, 1, kStatic, 2 * kCuptiSecond - 50, kCuptiAddress + (1ul << 32), 8 * kMiB);
  AddRecord(&cupti, 2, kDevice, 6 * kCuptiSecond, kCuptiAddress + (3ul << 32), 16 * kMiB);  // buffers come out of order
  AddRecord(&cupti, 1, kStatic, 3 * kCuptiSecond, kCuptiAddress + (2ul << 32), 4 * kMiB);
  AddRecord(&cupti, 1, kDevice, 4 * kCuptiSecond, kCuptiAddress + (3ul << 32), 16 * kMiB);
  AddRecord(&cupti, 1, kDevice, 4 * kCuptiSecond, kCuptiAddress + (4ul << 32), kMiB)->set_pool_address(7);
  return cupti;
}

Analysis Analyzed(const trace::Cupti& cupti) {
  testing::TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.Event(CuptiRow(trace::ALLOC, kCuptiSecond, kCuptiAddress, 100 * kMiB));
  EventRow module = CuptiRow(trace::MODULE_LOAD, 2 * kCuptiSecond, 0, 20 * kMiB);
  module.handle = 77;
  module.duration_ns = 100;
  trace.Event(module);
  trace.Event(CuptiRow(trace::ALLOC, 5 * kCuptiSecond, kCuptiAddress + (9ul << 32), 2 * kMiB));
  trace.FlushBatch();
  trace::Counters sample;
  sample.set_time_ns(5 * kCuptiSecond + kCuptiSecond / 2);
  sample.set_took_ns(1'000'000);
  sample.set_cause(trace::PERIODIC);
  sample.set_source("NVML 1");
  trace::DeviceCounters* device = sample.add_devices();
  device->set_device(0);
  device->set_own_process(trace::OWN_BY_PID);
  device->set_own_bytes(150 * kMiB);
  device->set_used_bytes(150 * kMiB);
  device->set_total_bytes(1000 * kMiB);
  device->set_free_bytes(850 * kMiB);
  device->set_other_count(0);
  trace.Counters(sample);
  trace.Event(CuptiRow(trace::FREE, 10 * kCuptiSecond, kCuptiAddress + (9ul << 32), 0));
  trace::Packet packet;
  *packet.mutable_cupti() = cupti;
  trace.Append(packet);
  trace.End();
  return AnalyzeTrace(trace);
}

TEST(Cupti, StaticVariablesAndUnseenCallsArePartsOfTheProcess) {
  trace::Cupti cupti = Recorded();
  AddRecord(&cupti, 1, kDevice, 5 * kCuptiSecond, kCuptiAddress + (9ul << 32), 2 * kMiB);
  AddRecord(&cupti, 2, kDevice, 10 * kCuptiSecond, kCuptiAddress + (9ul << 32), 2 * kMiB);
  const Analysis analysis = Analyzed(cupti);
  EXPECT_EQ(analysis.cupti.records, 8u);
  EXPECT_TRUE(analysis.cupti.compared);
  const MemoryBreakdown& peak = analysis.devices.at(0).breakdown_at_peak;
  EXPECT_TRUE(peak.cupti_known);
  EXPECT_EQ(peak.cupti.static_in_measured_bytes, 8 * kMiB);
  EXPECT_EQ(peak.cupti.static_bytes, 4 * kMiB);
  EXPECT_EQ(peak.cupti.unseen_bytes, 16 * kMiB);
  EXPECT_EQ(peak.process, 150 * kMiB);
  EXPECT_EQ(peak.unexplained, static_cast<int64_t>((150 - 102 - 20 - 4 - 16) * kMiB));
  const MemoryBreakdown& end = analysis.devices[0].breakdown_at_end;
  EXPECT_EQ(end.cupti.unseen_bytes, 0u);
  EXPECT_EQ(end.process, (150 - 2 - 16) * kMiB);  // what went since the sample, seen by either
  EXPECT_EQ(end.unexplained, peak.unexplained);
}

TEST(Cupti, NothingIsKnownBehindItsLastRecordOrWithLosses) {
  trace::Cupti cupti = Recorded();
  cupti.set_complete_until_ns(4 * kCuptiSecond);
  cupti.set_state(trace::CUPTI_OTHER_SUBSCRIBER);  // it was left to somebody then
  const Analysis early = Analyzed(cupti);
  EXPECT_FALSE(early.devices.at(0).breakdown_at_peak.cupti_known);
  EXPECT_EQ(early.devices.at(0).breakdown_at_peak.cupti.static_bytes, 0u);
  cupti = Recorded();
  cupti.set_dropped_records(1);
  const Analysis lossy = Analyzed(cupti);
  EXPECT_FALSE(lossy.devices.at(0).breakdown_at_peak.cupti_known);
  EXPECT_EQ(lossy.losses.cupti_dropped_records, 1u);
  EXPECT_EQ(lossy.losses.Total(), 0u) << "no event is missing for it";
}

TEST(Cupti, ThatDidNotWatchSaysSo) {
  trace::Cupti cupti;
  cupti.set_state(trace::CUPTI_OTHER_SUBSCRIBER);
  cupti.set_error(39);
  const Analysis analysis = Analyzed(cupti);
  EXPECT_TRUE(analysis.cupti.asked);
  EXPECT_FALSE(analysis.cupti.compared);
  EXPECT_EQ(analysis.cupti.state, trace::CUPTI_OTHER_SUBSCRIBER);
  EXPECT_FALSE(analysis.devices.at(0).breakdown_at_peak.cupti_known);
}

}  // namespace
}  // namespace gpumem

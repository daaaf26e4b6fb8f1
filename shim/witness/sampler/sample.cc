// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/sample.h"

#include "shim/writer/fields.h"

namespace gpumemshim::sampler {
namespace {

namespace fields = writer::fields;

void PutKnown(uint32_t field, uint64_t value, ProtoWriter* w) {
  if (value != kUnknown) w->Varint(field, value);
}

void PutProcess(const ProcessUse& process, ProtoWriter* w) {
  using Field = fields::DeviceProcess;
  const size_t mark = w->Open(fields::DeviceCounters::kOthers);
  w->Varint(Field::kPid, process.pid);
  PutKnown(Field::kUsedBytes, process.bytes, w);
  w->StringIf(Field::kName, process.name);
  w->Close(mark);
}

void PutDevice(const DeviceSample& device, ProtoWriter* w) {
  using Field = fields::DeviceCounters;
  const size_t mark = w->Open(fields::Counters::kDevices);
  w->SInt(Field::kDevice, device.device);
  PutKnown(Field::kUsedBytes, device.used, w);
  PutKnown(Field::kFreeBytes, device.free, w);
  PutKnown(Field::kTotalBytes, device.total, w);
  PutKnown(Field::kDriverReservedBytes, device.driver_reserved, w);
  PutKnown(Field::kOwnBytes, device.own, w);
  w->VarintIf(Field::kOwnProcess, static_cast<uint64_t>(device.own_process));
  if (device.others_known) w->Varint(Field::kOtherCount, device.other_count);
  for (uint32_t i = 0; i < device.others_kept; i++) PutProcess(device.others[i], w);
  PutKnown(Field::kPoolReservedBytes, device.pool_reserved, w);
  PutKnown(Field::kPoolUsedBytes, device.pool_used, w);
  w->Close(mark);
}

void PutCrossing(const Crossing& crossing, ProtoWriter* w) {
  using Field = fields::ThresholdCrossing;
  const size_t mark = w->Open(fields::Counters::kCrossings);
  w->SInt(Field::kDevice, crossing.device);
  w->VarintIf(Field::kPercent, crossing.percent);
  w->VarintIf(Field::kBytes, crossing.bytes);
  w->Varint(Field::kUsedBytes, crossing.used);
  w->VarintIf(Field::kTotalBytes, crossing.total);
  PutKnown(Field::kOwnBytes, crossing.own, w);
  w->Close(mark);
}

}  // namespace

void EncodePacket(const Sample& sample, ProtoWriter* w) {
  using Field = fields::Counters;
  const size_t packet = w->Open(fields::Trace::kPacket);
  const size_t message = w->Open(fields::Packet::kCounters);
  w->Varint(Field::kTimeNs, sample.time_ns);
  for (uint32_t i = 0; i < sample.device_count; i++) PutDevice(sample.devices[i], w);
  w->VarintIf(Field::kProcessRssBytes, sample.rss);
  w->Varint(Field::kCause, static_cast<uint64_t>(sample.cause));
  w->VarintIf(Field::kTookNs, sample.took_ns);
  w->VarintIf(Field::kSystemTotalBytes, sample.system_total);
  w->VarintIf(Field::kSystemAvailableBytes, sample.system_available);
  w->VarintIf(Field::kProcessCpuNs, sample.process_cpu_ns);
  w->StringIf(Field::kSource, sample.source);
  w->StringIf(Field::kSourceError, sample.error);
  for (uint32_t i = 0; i < sample.crossing_count; i++) PutCrossing(sample.crossings[i], w);
  w->Close(message);
  w->Close(packet);
}

}  // namespace gpumemshim::sampler

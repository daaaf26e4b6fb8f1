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

namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 50;

// Reads one entry and moves *text behind it. False: it makes no sense.
bool ParseOne(const char** text, Threshold* out) {
  const char* p = *text;
  uint64_t value = 0;
  bool digits = false;
  for (; *p >= '0' && *p <= '9'; p++, digits = true) {
    if (value < kMaxBytes) value = value * 10 + static_cast<uint64_t>(*p - '0');
  }
  int shift = 0;
  bool percent = false;
  switch (*p) {
    case '%':
      percent = true;
      p++;
      break;
    case 'k':
    case 'K':
      shift = 10;
      break;
    case 'm':
    case 'M':
      shift = 20;
      break;
    case 'g':
    case 'G':
      shift = 30;
      break;
    case 't':
    case 'T':
      shift = 40;
      break;
    default:
      break;
  }
  if (shift != 0) p++;
  if (shift != 0 && *p == 'i') p++;
  if (!percent && (*p == 'B' || *p == 'b')) p++;
  const bool ended = *p == '\0' || *p == ',' || *p == ' ';
  while (*p != '\0' && *p != ',') p++;
  *text = p;
  if (!digits || !ended || value == 0) return false;
  if (percent) {
    *out = {static_cast<uint32_t>(value), 0};
    return value <= 100;
  }
  *out = {0, value << shift};
  return value <= kMaxBytes >> shift;
}

}  // namespace

uint32_t Thresholds::Parse(const char* text) {
  uint32_t left_out = 0;
  count_ = 0;
  while (*text != '\0') {
    if (*text == ',' || *text == ' ') {
      text++;
      continue;
    }
    Threshold limit;
    if (!ParseOne(&text, &limit) || count_ == kMaxThresholds) {
      left_out++;
    } else {
      limits_[count_++] = limit;
    }
  }
  return left_out;
}

void Thresholds::Check(Sample* sample) {
  for (uint32_t d = 0; d < sample->device_count; d++) {
    const DeviceSample& device = sample->devices[d];
    if (device.used == kUnknown || device.device < 0 || device.device >= static_cast<int16_t>(kMaxDevices)) continue;
    for (uint32_t i = 0; i < count_; i++) {
      const Threshold& limit = limits_[i];
      const bool total_known = device.total != kUnknown && device.total != 0;
      if (limit.percent != 0 && !total_known) continue;
      const bool above =
          limit.percent != 0 ? device.used >= device.total / 100 * limit.percent : device.used >= limit.bytes;
      const uint8_t bit = static_cast<uint8_t>(1u << i);
      if (!above || (reached_[device.device] & bit) != 0) continue;
      if (sample->crossing_count == kMaxThresholds) return;  // the rest with the next sample
      reached_[device.device] = static_cast<uint8_t>(reached_[device.device] | bit);
      sample->crossings[sample->crossing_count++] = {
          device.device, limit.percent, limit.bytes, device.used, total_known ? device.total : 0, device.own};
    }
  }
}

}  // namespace gpumemshim::sampler

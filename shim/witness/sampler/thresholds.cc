// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/thresholds.h"

namespace gpumemshim::sampler {
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

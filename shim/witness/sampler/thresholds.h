// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Thresholds: limits of a device's used memory, by all processes together, as GPUMEMSHIM_WARN_AT lists them. Each is
// reported once a device, the first time that a sample is at or above it.
//
// Thread-safety: one thread. Failure: an entry that makes no sense is left out and counted.
//
//   Thresholds thresholds;
//   thresholds.Parse("85%,95%,70G");
//   thresholds.Check(&sample);   // adds to sample.crossings

#ifndef GPUMEM_SHIM_WITNESS_SAMPLER_THRESHOLDS_H_
#define GPUMEM_SHIM_WITNESS_SAMPLER_THRESHOLDS_H_

#include <cstdint>

#include "shim/witness/sampler/sample.h"

namespace gpumemshim::sampler {

struct Threshold {
  uint32_t percent = 0;  // 0: the limit is `bytes`
  uint64_t bytes = 0;
};

class Thresholds {
 public:
  // "85%,70G,500M": percent of the device, or bytes with K, M, G, T (powers of 1024). At most kMaxThresholds. Returns
  // how many entries were left out.
  uint32_t Parse(const char* text);

  uint32_t count() const { return count_; }
  const Threshold& at(uint32_t index) const { return limits_[index]; }

  // The limits that this sample's devices reach for the first time.
  void Check(Sample* sample);

 private:
  uint32_t count_ = 0;
  Threshold limits_[kMaxThresholds];
  uint8_t reached_[kMaxDevices] = {};  // by device: a bit a limit
};
static_assert(kMaxThresholds <= 8, "reached_ has a bit for each");

}  // namespace gpumemshim::sampler

#endif  // GPUMEM_SHIM_WITNESS_SAMPLER_THRESHOLDS_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Sample: what the devices, and the machine, say of memory at one instant. Plain data of fixed size, so that the
// sampling thread hands it to the writer by a copy. The enums carry the numbers of proto/gpumem/trace.proto.

#ifndef GPUMEM_SHIM_WITNESS_SAMPLER_SAMPLE_H_
#define GPUMEM_SHIM_WITNESS_SAMPLER_SAMPLE_H_

#include <cstdint>

#include "shim/base/proto_writer.h"

namespace gpumemshim::sampler {

inline constexpr uint32_t kMaxDevices = 64;
inline constexpr uint32_t kMaxOthers = 32;  // of a device, the largest; more are only counted
inline constexpr uint32_t kMaxThresholds = 8;
inline constexpr uint64_t kUnknown = ~uint64_t{0};

// Why a sample was taken. See trace.proto, SampleCause. Where several causes met, the largest number stands.
enum class Cause : uint8_t { kPeriodic = 1, kGrowth = 2, kFirstEvent = 3, kOutOfMemory = 4, kEnd = 5 };

// How this process was found among those of a device. See trace.proto, OwnProcess.
enum class OwnProcess : uint8_t {
  kNotFound = 0,     // not found, or nothing tells which it is
  kByPid = 1,        // process ids are the machine's own, and one is ours
  kByPidInside = 2,  // we live in a process namespace, yet one has our id there
  kOnlyOne = 3,      // ids of another namespace, but only one process is on the device
};

// None of these has initialisers: they lie in fresh memory of the kernel, and only what is used of it shall be touched.
struct ProcessUse {
  uint32_t pid;
  uint64_t bytes;
  char name[32];
};

// Bytes; kUnknown where the device does not say.
struct DeviceSample {
  int16_t device;  // CUDA ordinal
  OwnProcess own_process;
  bool others_known;  // the processes could be listed
  uint64_t total;
  uint64_t used;  // by all processes; without `driver_reserved` where that is known
  uint64_t free;
  uint64_t driver_reserved;
  uint64_t own;
  uint64_t pool_reserved;  // the device's default pool for stream-ordered memory
  uint64_t pool_used;
  uint32_t other_count;
  uint32_t others_kept;
  ProcessUse others[kMaxOthers];  // largest first

  void Reset(int16_t of_device) {
    device = of_device;
    own_process = OwnProcess::kNotFound;
    others_known = false;
    total = used = free = driver_reserved = own = pool_reserved = pool_used = kUnknown;
    other_count = others_kept = 0;
  }
};

// One of the limits of GPUMEMSHIM_WARN_AT was reached for the first time.
struct Crossing {
  int16_t device;
  uint32_t percent;  // of the device; 0 = the limit is in bytes
  uint64_t bytes;
  uint64_t used, total;  // total 0 = not known
  uint64_t own;
};

struct Sample {
  uint64_t time_ns;  // when it was complete
  uint64_t took_ns;
  Cause cause;
  uint64_t rss;
  uint64_t process_cpu_ns;
  uint64_t system_total, system_available;  // RAM
  char source[64];                          // "NVML 13.580.65"; "" = nothing could be asked
  char error[160];                          // why
  uint32_t device_count;
  DeviceSample devices[kMaxDevices];
  uint32_t crossing_count;
  Crossing crossings[kMaxThresholds];
};

// A sample as one packet of proto/gpumem/trace.proto. Stateless.
void EncodePacket(const Sample& sample, ProtoWriter* w);

// Thresholds: limits of a device's used memory, by all processes together, as GPUMEMSHIM_WARN_AT lists them. Each is
// reported once a device, the first time that a sample is at or above it.
//
// Thread-safety: one thread. Failure: an entry that makes no sense is left out and counted.
//
//   Thresholds thresholds;
//   thresholds.Parse("85%,95%,70G");
//   thresholds.Check(&sample);   // adds to sample.crossings

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

#endif  // GPUMEM_SHIM_WITNESS_SAMPLER_SAMPLE_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// DeviceSampler: takes one sample. Knows the devices by what CUDA and NVML call them.
//
// Thread-safety: AddDevice and UsesPool from the writer thread, all else from the sampling thread. Failure: what is not
// answered stays unknown; a device that fails three times in a row is not asked again.

#ifndef GPUMEM_SHIM_WITNESS_SAMPLER_DEVICE_SAMPLER_H_
#define GPUMEM_SHIM_WITNESS_SAMPLER_DEVICE_SAMPLER_H_

#include <atomic>
#include <cstdint>

#include "shim/witness/sampler/nvml.h"
#include "shim/witness/sampler/sample.h"

namespace gpumemshim::sampler {

class DeviceSampler {
 public:
  using PoolReader = bool (*)(int16_t device, uint64_t* reserved, uint64_t* used);

  void AddDevice(int16_t device, const uint8_t (&uuid)[16]);
  void UsesPool(int16_t device);

  // Loads NVML. False: why is in error().
  bool Open();
  const char* error() const { return error_; }

  // Everything but cause and crossings.
  void Take(PoolReader read_pool, Sample* out);

 private:
  struct Device {
    int16_t device = -1;
    uint8_t uuid[16] = {};
    bool found = false;
    uint32_t failures = 0;
    nvmlDevice_t handle = nullptr;
    std::atomic<bool> uses_pool{false};
  };
  static constexpr uint32_t kMaxFailures = 3;

  void ReadDevice(PoolReader read_pool, Device* device, Sample* out);

  Nvml nvml_;
  bool open_ = false;
  bool machine_ids_ = false;
  char error_[160] = "";
  std::atomic<uint32_t> count_{0};
  Device devices_[kMaxDevices];
  ProcessUse processes_[Nvml::kMaxProcesses];
};

// Which of a device's processes is this one. NVML speaks of processes by the ids of the machine; inside a container a
// process has another id than outside, and nothing there tells which. So the id decides only where it can:
//
//   our ids are the machine's             the entry with our id                       kByPid
//   a namespace, an entry has our id      that one: the driver translates, as some do  kByPidInside
//   a namespace, one entry in all         that one                                     kOnlyOne
//   else                                  not known: under MPS, too, where the server holds all memory
//
// Thread-safety: stateless. Failure: kUnknown.

// Whether process ids are those of the machine. Without /proc: not.
bool InMachinesNamespace();

// Fills own, own_process, others, other_count and others_kept of `out` from a device's processes, which it may reorder.
void SplitProcesses(uint32_t own_pid, bool machine_ids, ProcessUse* processes, uint32_t count, DeviceSample* out);

// The kernel's name of a process of our namespace; "" where it is not known.
void ReadProcessName(uint32_t pid, char* out, uint32_t capacity);

// What the machine says of host memory: this process's resident bytes, the machine's RAM. Read from /proc.
//
// Thread-safety: stateless. Failure: 0 = not known.

uint64_t ResidentBytes();
void ReadMachineMemory(uint64_t* total, uint64_t* available);

// The value of "Name:   123 kB" in bytes.
uint64_t FindKilobytes(const char* text, const char* name);

}  // namespace gpumemshim::sampler

#endif  // GPUMEM_SHIM_WITNESS_SAMPLER_DEVICE_SAMPLER_H_

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

}  // namespace gpumemshim::sampler

#endif  // GPUMEM_SHIM_WITNESS_SAMPLER_DEVICE_SAMPLER_H_

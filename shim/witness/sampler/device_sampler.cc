// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/device_sampler.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/witness/sampler/machine_memory.h"
#include "shim/witness/sampler/own_process.h"

namespace gpumemshim::sampler {

void DeviceSampler::AddDevice(int16_t device, const uint8_t (&uuid)[16]) {
  const uint32_t count = count_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; i++) {
    if (devices_[i].device == device) return;
  }
  if (count == kMaxDevices) return;
  devices_[count].device = device;
  memcpy(devices_[count].uuid, uuid, sizeof(uuid));
  count_.store(count + 1, std::memory_order_release);  // with the loads of Take and UsesPool
}

void DeviceSampler::UsesPool(int16_t device) {
  const uint32_t count = count_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; i++) {
    if (devices_[i].device == device) devices_[i].uses_pool.store(true, std::memory_order_relaxed);
  }
}

bool DeviceSampler::Open() {
  machine_ids_ = InMachinesNamespace();
  open_ = nvml_.Open(error_, sizeof(error_));
  return open_;
}

void DeviceSampler::ReadDevice(PoolReader read_pool, Device* device, Sample* out) {
  DeviceSample& sample = out->devices[out->device_count];
  sample.Reset(device->device);
  if (!device->found) device->found = nvml_.FindDevice(device->uuid, &device->handle);
  if (!device->found || !nvml_.ReadMemory(device->handle, &sample)) {
    snprintf(error_, sizeof(error_), "NVML %s GPU %d", device->found ? "does not tell the memory of" : "does not know",
             device->device);
    device->failures++;
    return;
  }
  device->failures = 0;
  uint32_t count = 0;
  if (nvml_.ListProcesses(device->handle, processes_, &count)) {
    SplitProcesses(static_cast<uint32_t>(getpid()), machine_ids_, processes_, count, &sample);
  }
  if (read_pool != nullptr && device->uses_pool.load(std::memory_order_relaxed) &&
      !read_pool(device->device, &sample.pool_reserved, &sample.pool_used)) {
    sample.pool_reserved = sample.pool_used = kUnknown;
  }
  out->device_count++;
}

void DeviceSampler::Take(PoolReader read_pool, Sample* out) {
  const uint64_t start_ns = MonotonicNs();
  out->device_count = 0;
  out->crossing_count = 0;
  const uint32_t count = open_ ? count_.load(std::memory_order_acquire) : 0;
  for (uint32_t i = 0; i < count; i++) {
    if (devices_[i].failures < kMaxFailures) ReadDevice(read_pool, &devices_[i], out);
  }
  out->time_ns = MonotonicNs();
  out->took_ns = out->time_ns - start_ns;
  out->rss = ResidentBytes();
  out->process_cpu_ns = ClockNs(CLOCK_PROCESS_CPUTIME_ID);
  ReadMachineMemory(&out->system_total, &out->system_available);
  memcpy(out->source, nvml_.version(), sizeof(out->source));
  memcpy(out->error, error_, sizeof(out->error));
}

}  // namespace gpumemshim::sampler

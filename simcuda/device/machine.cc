// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/device/machine.h"

#include <atomic>

#include "simcuda/base/note.h"
#include "simcuda/device/granularity.h"

namespace simcuda {

std::optional<uint64_t> DeviceMemory::Allocate(uint64_t size) {
  if (size < kSmallLimit) return small_.Allocate(size);
  return TakeGranules(RoundUp(size, kGranule));
}

void DeviceMemory::Free(uint64_t address, uint64_t size) {
  if (size >= kSmallLimit) return GiveGranules(address, RoundUp(size, kGranule));
  small_.ReleaseWithin(small_.Free(address, size));
}

namespace {

std::atomic<simcuda_observer> g_observer;

}  // namespace

Machine::Machine(const MachineConfig& machine_config)
    : config(machine_config),
      addresses(machine_config.device_count, machine_config.address_order, machine_config.context_range),
      contents(&addresses, machine_config.content_bytes),
      log_(machine_config.log_pattern) {
  for (int index = 0; index < config.device_count; ++index) {
    devices.push_back(std::make_unique<DeviceMemory>(index, config.memory_bytes, &addresses));
    if (config.overcommit) device(index).Overcommit();
  }
  SharedUsage* shared = nullptr;
  if (!config.shared_path.empty()) {
    shared = SharedUsage::Open(config.shared_path.c_str());
    if (shared == nullptr || !shared->Join()) {
      PrintLine("cannot share devices through SIMCUDA_SHARED file %s", config.shared_path.c_str());
    }
  }
  for (int index = 0; index < config.device_count; ++index) {
    const auto at = static_cast<size_t>(index);
    device(index).SetNeighbours(shared, at < config.physical.size() ? config.physical[at] : index, config.others_bytes);
  }
}

CUresult Machine::NextForcedFailure() {
  const uint64_t call = ++allocation_calls;
  const bool fails =
      config.fail_first != 0 && call >= config.fail_first && call - config.fail_first < config.fail_count;
  return fails ? static_cast<CUresult>(config.fail_result) : CUDA_SUCCESS;
}

void Machine::Observe(simcuda_observer observer) { g_observer.store(observer, std::memory_order_release); }

void Machine::Log(LogEvent event) {
  const simcuda_observer observer = g_observer.load(std::memory_order_acquire);
  if (observer != nullptr && event.result == CUDA_SUCCESS) {
    const simcuda_memory_event seen{event.api,  event.kind,   event.device, event.address,
                                    event.size, event.handle, event.stream};
    observer(&seen);
  }
  if (!log_.enabled()) return;
  if (event.device >= 0) {
    event.live_bytes = device(event.device).live_bytes();
    event.used_bytes = device(event.device).used_bytes();
  }
  log_.Write(event);
}

CUresult Machine::ChargeContext(const char* api, int index, uint64_t handle, uint64_t bytes) {
  const std::lock_guard lock(mutex);
  const CUresult result = device(index).Charge(bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  Log({.api = api, .kind = "context_create", .device = index, .size = bytes, .handle = handle, .result = result});
  return result;
}

void Machine::DischargeContext(const char* api, int index, uint64_t handle, uint64_t bytes) {
  const std::lock_guard lock(mutex);
  device(index).Discharge(bytes);
  Log({.api = api, .kind = "context_destroy", .device = index, .size = bytes, .handle = handle});
}

CUresult Machine::ResizeContext(const char* api, int index, uint64_t handle, uint64_t old_bytes, uint64_t new_bytes) {
  const std::lock_guard lock(mutex);
  CUresult result = CUDA_SUCCESS;
  if (new_bytes < old_bytes) {
    device(index).Discharge(old_bytes - new_bytes);
  } else if (!device(index).Charge(new_bytes - old_bytes)) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  Log({.api = api, .kind = "context_resize", .device = index, .size = new_bytes, .handle = handle, .result = result});
  return result;
}

void Machine::MemoryInfo(int index, uint64_t* free_bytes, uint64_t* total_bytes) {
  const std::lock_guard lock(mutex);
  *total_bytes = device(index).total_bytes();
  *free_bytes = device(index).free_bytes();
}

void Machine::OnKernel(int index) {
  const std::lock_guard lock(mutex);
  addresses.device(index).OnKernel();
}

void Machine::Copy(uint64_t target, uint64_t source, uint64_t size) {
  const std::lock_guard lock(mutex);
  ++copies;
  contents.Copy(target, source, size);
}

void Machine::Fill(uint64_t target, uint32_t value, unsigned width, uint64_t count) {
  const std::lock_guard lock(mutex);
  contents.Fill(target, value, width, count);
}

void Machine::Zero(uint64_t address, uint64_t size) {
  const std::lock_guard lock(mutex);
  if (addresses.Contains(address)) contents.Zero(address, size);
}

char* Machine::Bytes(uint64_t address, uint64_t size, Truth* truth) {
  const std::lock_guard lock(mutex);
  if (!addresses.Contains(address)) return nullptr;
  *truth = contents.TruthOf(address, size);
  return contents.Seen(address);
}

char* Machine::Learn(uint64_t address, uint64_t size, Truth truth) {
  const std::lock_guard lock(mutex);
  return addresses.Contains(address) ? contents.Learn(address, size, truth) : nullptr;
}

void Machine::Doubt(uint64_t address, uint64_t size) {
  const std::lock_guard lock(mutex);
  if (addresses.Contains(address)) contents.Doubt(address, size);
}

void Machine::TruthOfEach(uint64_t address, uint64_t count, uint64_t width, unsigned char* truths) {
  const std::lock_guard lock(mutex);
  const bool is_here = addresses.Contains(address);
  for (uint64_t i = 0; i < count; ++i)
    truths[i] = is_here ? static_cast<unsigned char>(contents.TruthOf(address + i * width, width)) : 0;
}

bool Machine::IsKnown(uint64_t address, uint64_t size) {
  const std::lock_guard lock(mutex);
  return addresses.Contains(address) && contents.TruthOf(address, size) == Truth::kKnown;
}

bool Machine::Peek(void* target, uint64_t source, uint64_t size) {
  const std::lock_guard lock(mutex);
  if (!addresses.Contains(source) || !contents.HasBytes(source, size)) return false;
  contents.Copy(reinterpret_cast<uint64_t>(target), source, size);
  return true;
}

}  // namespace simcuda

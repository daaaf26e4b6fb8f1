// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/device/module_memory.h"

namespace simcuda {

CUresult ModuleMemory::Load(const Caller& caller, const void* module) {
  const std::lock_guard lock(machine_->mutex);
  const auto [at, fresh] = loaded_.try_emplace({module, caller.context}, caller.device);
  if (!fresh) return CUDA_SUCCESS;
  const bool charged = machine_->device(caller.device).Charge(machine_->config.module_bytes);
  const CUresult result = charged ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (!charged) loaded_.erase(at);
  machine_->Log({.api = caller.api,
                 .kind = charged ? "module_load" : "module_failed",
                 .device = caller.device,
                 .size = machine_->config.module_bytes,
                 .handle = reinterpret_cast<uint64_t>(module),
                 .result = result});
  return result;
}

std::map<ModuleMemory::Place, int>::iterator ModuleMemory::Remove(const Caller& caller,
                                                                  std::map<Place, int>::iterator loaded) {
  const auto [place, device] = *loaded;
  machine_->device(device).Discharge(machine_->config.module_bytes);
  machine_->Log({.api = caller.api,
                 .kind = "module_unload",
                 .device = device,
                 .size = machine_->config.module_bytes,
                 .handle = reinterpret_cast<uint64_t>(place.first)});
  return loaded_.erase(loaded);
}

void ModuleMemory::Unload(const Caller& caller, const void* module) {
  const std::lock_guard lock(machine_->mutex);
  for (auto at = loaded_.lower_bound({module, nullptr}); at != loaded_.end() && at->first.first == module;) {
    at = Remove(caller, at);
  }
}

void ModuleMemory::DropContext(const Caller& caller) {
  const std::lock_guard lock(machine_->mutex);
  for (auto at = loaded_.begin(); at != loaded_.end();) {
    at = at->first.second == caller.context ? Remove(caller, at) : std::next(at);
  }
}

}  // namespace simcuda

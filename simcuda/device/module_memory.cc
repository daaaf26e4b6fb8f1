// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/device/module_memory.h"

#include "simcuda/device/granularity.h"

namespace simcuda {

namespace {

// Measured on an H100 (driver 580.159.04, CUDA 13.0): 15 or 16 streams took 8 MiB of the process, 112 more 62 MiB.
constexpr uint64_t kStreamBytes = 578'000;

}  // namespace

CUresult ModuleMemory::Load(const Caller& caller, const void* module, uint64_t bytes) {
  const std::lock_guard lock(machine_->mutex);
  const auto [at, fresh] = loaded_.try_emplace({module, caller.context}, Charge{caller.device, bytes});
  if (!fresh) return CUDA_SUCCESS;
  const bool charged = machine_->device(caller.device).Charge(bytes);
  const CUresult result = charged ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (!charged) loaded_.erase(at);
  machine_->Log({.api = caller.api,
                 .kind = charged ? "module_load" : "module_failed",
                 .device = caller.device,
                 .size = bytes,
                 .handle = reinterpret_cast<uint64_t>(module),
                 .result = result});
  return result;
}

void ModuleMemory::AddStream(const Caller& caller) {
  const std::lock_guard lock(machine_->mutex);
  StreamsOfContext& streams = streams_[caller.context];
  streams.device = caller.device;
  const uint64_t bytes = RoundDown(++streams.count * kStreamBytes, kGranule);
  // A full device still makes streams here: what a driver does then is not known.
  if (bytes > streams.bytes && machine_->device(caller.device).Charge(bytes - streams.bytes)) streams.bytes = bytes;
}

std::map<ModuleMemory::Place, ModuleMemory::Charge>::iterator ModuleMemory::Remove(
    const Caller& caller, std::map<Place, Charge>::iterator loaded) {
  const auto [place, charge] = *loaded;
  machine_->device(charge.device).Discharge(charge.bytes);
  machine_->Log({.api = caller.api,
                 .kind = "module_unload",
                 .device = charge.device,
                 .size = charge.bytes,
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
  if (const auto found = streams_.find(caller.context); found != streams_.end()) {
    machine_->device(found->second.device).Discharge(found->second.bytes);
    streams_.erase(found);
  }
}

}  // namespace simcuda

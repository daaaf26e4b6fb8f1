// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// External memory: made by another interface (Vulkan, ...), imported by a file descriptor, mapped as buffers and
// arrays. It is charged to nobody here. The descriptor belongs to CUDA after a successful import.
#include <unistd.h>

#include <mutex>
#include <unordered_map>

#include "simcuda/driver/driver.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

std::mutex g_external_mutex;

// Size of each imported memory, by its handle.
std::unordered_map<uint64_t, uint64_t>& Sizes() {
  static auto* const sizes = new std::unordered_map<uint64_t, uint64_t>();
  return *sizes;
}

bool HoldsRange(CUexternalMemory handle, uint64_t offset, uint64_t size) {
  const std::lock_guard lock(g_external_mutex);
  const auto found = Sizes().find(reinterpret_cast<uint64_t>(handle));
  return found != Sizes().end() && size <= found->second && offset <= found->second - size;
}

void Log(const char* api, const char* kind, int device, uint64_t size, uint64_t handle) {
  Machine& machine = GetSimulation()->machine;
  const std::lock_guard lock(machine.mutex);
  machine.Log({.api = api, .kind = kind, .device = device, .size = size, .handle = handle});
}

}  // namespace

extern "C" {

CUresult cuImportExternalMemory(CUexternalMemory* handle, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (handle == nullptr || description == nullptr || description->size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (description->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) return CUDA_ERROR_NOT_SUPPORTED;
  if (::close(description->handle.fd) != 0) return CUDA_ERROR_INVALID_VALUE;
  static uint64_t last_handle = 0xe000'0000;
  uint64_t created = 0;
  {
    const std::lock_guard lock(g_external_mutex);
    created = last_handle += 64;
    Sizes()[created] = description->size;
  }
  Log("cuImportExternalMemory", "external_import", CurrentContext()->device, description->size, created);
  *handle = reinterpret_cast<CUexternalMemory>(created);
  return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* pointer, CUexternalMemory handle,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description) {
  Caller caller;
  const CUresult usable = CurrentCaller("cuExternalMemoryGetMappedBuffer", &caller);
  if (usable != CUDA_SUCCESS) return usable;
  if (pointer == nullptr || description == nullptr || !HoldsRange(handle, description->offset, description->size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t address = 0;
  const CUresult result = GetSimulation()->linear.AddForeign(caller, AllocationKind::kExternal, description->size,
                                                             reinterpret_cast<uint64_t>(handle), nullptr, &address);
  if (result == CUDA_SUCCESS) *pointer = address;
  return result;
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray* array, CUexternalMemory handle,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* description) {
  Caller caller;
  const CUresult usable = CurrentCaller("cuExternalMemoryGetMappedMipmappedArray", &caller);
  if (usable != CUDA_SUCCESS) return usable;
  if (array == nullptr || description == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!HoldsRange(handle, description->offset, ArrayBytes(description->arrayDesc))) return CUDA_ERROR_INVALID_VALUE;
  uint64_t created = 0;
  const CUresult result = GetSimulation()->arrays.CreateView(caller, description->arrayDesc, description->numLevels,
                                                             reinterpret_cast<uint64_t>(handle), &created);
  if (result == CUDA_SUCCESS) *array = reinterpret_cast<CUmipmappedArray>(created);
  return result;
}

CUresult cuDestroyExternalMemory(CUexternalMemory handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  uint64_t size = 0;
  {
    const std::lock_guard lock(g_external_mutex);
    const auto found = Sizes().find(reinterpret_cast<uint64_t>(handle));
    if (found == Sizes().end()) return CUDA_ERROR_INVALID_HANDLE;
    size = found->second;
    Sizes().erase(found);
  }
  Log("cuDestroyExternalMemory", "external_destroy", -1, size, reinterpret_cast<uint64_t>(handle));
  return CUDA_SUCCESS;
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a pointer is: device, managed, registered or none of CUDA's business.
#include <cstring>

#include "simcuda/driver/driver.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

struct PointerInfo {
  uint64_t start = 0, size = 0, id = 0;
  int device = 0;
  const void* context = nullptr;
  bool host = false, managed = false, mapped = false;
  CUmemoryPool pool = nullptr;
};

bool FindPointer(uint64_t pointer, PointerInfo* info) {
  Simulation* const simulation = GetSimulation();
  if (const auto allocation = simulation->linear.Find(pointer)) {
    *info = {.start = allocation->address,
             .size = allocation->size,
             .id = allocation->id,
             .device = allocation->device,
             .context = allocation->context,
             .host = allocation->device < 0,
             .managed = allocation->kind == AllocationKind::kManaged,
             .mapped = false,
             .pool = reinterpret_cast<CUmemoryPool>(allocation->pool)};
    return true;
  }
  if (const auto mapping = simulation->virtual_memory.FindMapping(pointer)) {
    *info = {.start = mapping->address,
             .size = mapping->size,
             .id = mapping->handle,
             .device = mapping->device,
             .context = nullptr,
             .host = mapping->device < 0,
             .managed = false,
             .mapped = true,
             .pool = nullptr};
    return true;
  }
  if (const auto range = simulation->host.Find(pointer)) {
    *info = {.start = range->address,
             .size = range->size,
             .id = range->id,
             .device = range->device,
             .context = range->context,
             .host = true,
             .managed = false,
             .mapped = false,
             .pool = nullptr};
    return true;
  }
  return false;
}

template <typename T>
CUresult Store(void* target, T value) {
  std::memcpy(target, &value, sizeof value);  // NOLINT(bugprone-sizeof-expression): handles are answers too
  return CUDA_SUCCESS;
}

CUresult AnswerAttribute(void* data, CUpointer_attribute attribute, uint64_t pointer, const PointerInfo& info) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Store(data, info.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Store<unsigned>(data, info.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Store<uint64_t>(data, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!info.host && !info.managed) return CUDA_ERROR_INVALID_VALUE;
      return Store<uint64_t>(data, pointer);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Store<unsigned>(data, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return Store<uint64_t>(data, info.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Store<unsigned>(data, info.managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Store<int>(data, info.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Store<unsigned>(data, info.host || info.managed || info.mapped || info.pool != nullptr ? 0 : 1);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return Store<uint64_t>(data, info.start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return Store<uint64_t>(data, info.size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Store<unsigned>(data, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Store<uint64_t>(data, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Store<unsigned>(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Store(data, info.pool);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// The documented answers of the plural form for a pointer that CUDA does not know.
void AnswerUnknown(void* data, CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      Store<int>(data, -2);
      return;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      Store<unsigned>(data, 0);
      return;
    default:
      Store<uint64_t>(data, 0);
  }
}

}  // namespace

extern "C" {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  PointerInfo info;
  if (FindPointer(pointer, &info)) return AnswerAttribute(data, attribute, pointer, info);
  const auto reservation = GetSimulation()->virtual_memory.FindReservation(pointer);
  if (!reservation) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {  // reserved and not mapped
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Store<unsigned>(data, 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Store<uint64_t>(data, reservation->address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Store<uint64_t>(data, reservation->size);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  PointerInfo info;
  const bool known = FindPointer(pointer, &info);
  for (unsigned i = 0; i < count; ++i) {
    if (!known || AnswerAttribute(data[i], attributes[i], pointer, info) != CUDA_SUCCESS)
      AnswerUnknown(data[i], attributes[i]);
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void*, CUpointer_attribute, CUdeviceptr) { return CheckContext(); }

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Plain, pitched and managed device memory.
#include <cstring>

#include "simcuda/device/granularity.h"
#include "simcuda/driver/capture.h"
#include "simcuda/driver/driver.h"
#include "simcuda/driver/results.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

CUresult AllocateLinear(const char* api, CUdeviceptr* pointer, uint64_t size, AllocationKind kind) {
  Caller caller;
  if (const CUresult result = CurrentCaller(api, &caller); result != CUDA_SUCCESS) return result;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckUnsafeCall(); result != CUDA_SUCCESS) return result;
  uint64_t address = 0;
  const CUresult result = GetSimulation()->linear.Allocate(caller, size, kind, &address);
  if (result == CUDA_SUCCESS) *pointer = address;
  return result;
}

}  // namespace

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t size) {
  return AllocateLinear("cuMemAlloc_v2", pointer, size, AllocationKind::kDevice);
}

CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t size, unsigned flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  return AllocateLinear("cuMemAllocManaged", pointer, size, AllocationKind::kManaged);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* pointer, size_t* pitch, size_t width, size_t height, unsigned element) {
  const bool element_ok = element == 4 || element == 8 || element == 16;
  if (pitch == nullptr || !element_ok || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t row = RoundUp(width, kPitchAlignment);
  const CUresult result = AllocateLinear("cuMemAllocPitch_v2", pointer, row * height, AllocationKind::kDevice);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (pointer == 0) return CUDA_SUCCESS;
  Caller caller;
  if (const CUresult result = CurrentCaller("cuMemFree_v2", &caller); result != CUDA_SUCCESS) return result;
  if (const CUresult result = CheckUnsafeCall(); result != CUDA_SUCCESS) return result;
  return GetSimulation()->linear.Free(caller, pointer);
}

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  uint64_t free_value = 0, total_value = 0;
  GetSimulation()->machine.MemoryInfo(CurrentContext()->device, &free_value, &total_value);
  if (free_bytes != nullptr) *free_bytes = free_value;
  if (total_bytes != nullptr) *total_bytes = total_value;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr pointer) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  uint64_t address = 0, bytes = 0;
  if (const auto allocation = GetSimulation()->linear.Find(pointer)) {
    address = allocation->address;
    bytes = allocation->size;
  } else if (const auto mapping = GetSimulation()->virtual_memory.FindMapping(pointer)) {
    address = mapping->address;
    bytes = mapping->size;
  } else if (const auto host = GetSimulation()->host.Find(pointer)) {
    address = host->address;
    bytes = host->size;
  } else {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (base != nullptr) *base = address;
  if (size != nullptr) *size = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice) { return CheckContext(); }
CUresult cuMemAdvise_v2(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) { return CheckContext(); }
CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream) { return CheckContext(); }
CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream) { return CheckContext(); }

// Not CUDA: makes a range read as zeros, for a block that an allocator above hands out again.
__attribute__((visibility("default"))) void simcuda_zero(uint64_t address, uint64_t size) {
  if (Simulation* const simulation = GetSimulation()) simulation->machine.Zero(address, size);
}

// Not CUDA: what device memory holds, without being a read of the program's; false, and nothing written, where it is
// all zeros.
__attribute__((visibility("default"))) bool simcuda_peek(void* target, uint64_t source, uint64_t size) {
  Simulation* const simulation = GetSimulation();
  return simulation != nullptr && simulation->machine.Peek(target, source, size);
}

// Not CUDA: between which addresses a device's memory is, and where the next of it is to be if that is free, for a
// replay that begins with what a recorded program had already. False where there is no such device.
__attribute__((visibility("default"))) bool simcuda_address_range(int device, uint64_t* begin, uint64_t* end) {
  if (CheckDevice(device) != CUDA_SUCCESS) return false;
  Machine& machine = GetSimulation()->machine;
  const std::lock_guard lock(machine.mutex);
  *begin = machine.addresses.device(device).begin();
  *end = machine.addresses.device(device).end();
  return true;
}

__attribute__((visibility("default"))) bool simcuda_place_next(int device, uint64_t address) {
  if (CheckDevice(device) != CUDA_SUCCESS) return false;
  Machine& machine = GetSimulation()->machine;
  const std::lock_guard lock(machine.mutex);
  machine.addresses.device(device).PlaceNext(address);
  return true;
}

// Not CUDA: for whoever computes what kernels would (device/contents.h). Where the bytes at a device address lie, and
// how true the least known of the range is (Truth); 0: the host cannot have them.
__attribute__((visibility("default"))) uint64_t simcuda_bytes(uint64_t address, uint64_t size, int* truth) {
  Simulation* const simulation = GetSimulation();
  Truth found = Truth::kUnknown;
  char* const bytes = simulation == nullptr ? nullptr : simulation->machine.Bytes(address, size, &found);
  *truth = static_cast<int>(found);
  return reinterpret_cast<uint64_t>(bytes);
}

// The same for writing; from then on the range is as true as that.
__attribute__((visibility("default"))) uint64_t simcuda_learn(uint64_t address, uint64_t size, int truth) {
  Simulation* const simulation = GetSimulation();
  if (simulation == nullptr) return 0;
  return reinterpret_cast<uint64_t>(simulation->machine.Learn(address, size, static_cast<Truth>(truth)));
}

// The truth of each of `count` elements of so many bytes.
__attribute__((visibility("default"))) void simcuda_truths(uint64_t address, uint64_t count, uint64_t width,
                                                           unsigned char* truths) {
  if (Simulation* const simulation = GetSimulation()) simulation->machine.TruthOfEach(address, count, width, truths);
}

// The range is not known any more: something was to write there.
__attribute__((visibility("default"))) void simcuda_doubt(uint64_t address, uint64_t size) {
  if (Simulation* const simulation = GetSimulation()) simulation->machine.Doubt(address, size);
}

// How many elements this thread's next counts find; the largest number: nobody knows.
__attribute__((visibility("default"))) void simcuda_found(uint64_t count) { SetFound(count); }

// Not CUDA: the device address of a module's variable; what __cudaRegisterVar announces to the runtime.
__attribute__((visibility("default"))) uint64_t simcuda_static(uint64_t size) {
  Caller caller;
  if (CurrentCaller("simcuda_static", &caller) != CUDA_SUCCESS) return 0;
  uint64_t address = 0;
  GetSimulation()->linear.Allocate(caller, size == 0 ? 1 : size, AllocationKind::kStatic, &address);
  return address;
}

// Pinned and registered host memory.

CUresult cuMemHostAlloc(void** pointer, size_t size, unsigned flags) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuMemHostAlloc", &caller); result != CUDA_SUCCESS) return result;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->host.Allocate(caller, size, flags, pointer);
}

CUresult cuMemAllocHost_v2(void** pointer, size_t size) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuMemAllocHost_v2", &caller); result != CUDA_SUCCESS) return result;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->host.Allocate(caller, size, 0, pointer);
}

CUresult cuMemFreeHost(void* pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->host.Free({.api = "cuMemFreeHost"}, pointer);
}

CUresult cuMemHostRegister_v2(void* pointer, size_t size, unsigned flags) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuMemHostRegister_v2", &caller); result != CUDA_SUCCESS) return result;
  return GetSimulation()->host.Register(caller, pointer, size, flags);
}

CUresult cuMemHostUnregister(void* pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->host.Unregister({.api = "cuMemHostUnregister"}, pointer);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device_pointer, void* pointer, unsigned) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (!GetSimulation()->host.Find(reinterpret_cast<uint64_t>(pointer))) return CUDA_ERROR_INVALID_VALUE;
  *device_pointer = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const auto range = GetSimulation()->host.Find(reinterpret_cast<uint64_t>(pointer));
  if (!range) return CUDA_ERROR_INVALID_VALUE;
  *flags = range->flags;
  return CUDA_SUCCESS;
}

}  // extern "C"

namespace {

// What a pointer is: device, managed, registered or none of CUDA's business.

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

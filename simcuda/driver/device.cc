// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Devices and their attributes: those of an H200, unless the environment says otherwise.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "simcuda/base/environment.h"
#include "simcuda/driver/driver.h"
#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

int PhysicalIndex(CUdevice device) { return GetEnvironment().visible_devices[static_cast<size_t>(device)]; }

struct AttributeValue {
  CUdevice_attribute attribute;
  int value;
};

// What is alike on all devices since compute capability 7.0, or asked for by nobody, as on 9.0.
constexpr AttributeValue kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 134213632},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 1},
};

// What differs from device to device.
std::optional<int> OfThisDevice(CUdevice_attribute attribute) {
  const Environment& environment = GetEnvironment();
  const bool since_hopper = environment.compute_capability >= 90;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return environment.multiprocessors;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return environment.compute_capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return environment.compute_capability % 10;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return environment.multiprocessor.max_threads;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return environment.multiprocessor.max_blocks;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return environment.multiprocessor.registers;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return environment.shared_memory;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return environment.multiprocessor.shared_bytes;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return environment.multiprocessor.reserved_shared_bytes;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return environment.l2_bytes;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:  // 0.625 of it on an H200, and none before 8.0
      return environment.compute_capability >= 80 ? environment.l2_bytes / 8 * 5 : 0;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return environment.memory_bus_bits;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return environment.memory_clock_khz;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return environment.clock_khz;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      return since_hopper ? 1 : 0;
    default:
      return std::nullopt;
  }
}

}  // namespace

extern "C" {

CUresult cuDeviceGetCount(int* count) {
  const Simulation* const simulation = GetSimulation();
  if (simulation == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = simulation->machine.device_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (const CUresult result = CheckDevice(ordinal); result != CUDA_SUCCESS) return result;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<size_t>(length), "%s", GetEnvironment().name.c_str());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  std::memset(uuid, 0x5a, sizeof *uuid);
  uuid->bytes[15] = static_cast<char>(PhysicalIndex(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  *bytes = GetSimulation()->machine.device(device).total_bytes();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (text == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", 0x18 + PhysicalIndex(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  for (CUdevice candidate = 0; candidate < GetSimulation()->machine.device_count(); ++candidate) {
    char known[32];
    cuDeviceGetPCIBusId(known, sizeof known, candidate);
    if (std::strcmp(known, text) == 0 || std::strcmp(known + 5, text) == 0) {
      *device = candidate;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) *value = 0x18 + PhysicalIndex(device);
  if (const auto of_device = OfThisDevice(attribute)) *value = *of_device;
  for (const AttributeValue& known : kAttributes) {
    if (known.attribute == attribute) *value = known.value;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  *major = GetEnvironment().compute_capability / 10;
  *minor = GetEnvironment().compute_capability % 10;
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (const CUresult result = CheckDevice(peer); result != CUDA_SUCCESS) return result;
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (const CUresult result = CheckDevice(peer); result != CUDA_SUCCESS) return result;
  *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? 0 : device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int* value, CUexecAffinityType, CUdevice device) {
  *value = 0;
  return CheckDevice(device);
}

}  // extern "C"

namespace {

// Green contexts: a part of a device's multiprocessors. They keep the primary context and share its memory; what one
// takes itself is SIMCUDA_GREEN_CTX_MB, a guess.

// A descriptor is the number of multiprocessors that it asks for.
unsigned Multiprocessors() { return static_cast<unsigned>(GetEnvironment().multiprocessors); }

CUresult WholeDevice(CUdevResource* resource, CUdevResourceType type) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = {};
  resource->type = CU_DEV_RESOURCE_TYPE_SM;
  resource->sm.smCount = Multiprocessors();
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  return WholeDevice(resource, type);
}

CUresult cuCtxGetDevResource(CUcontext context, CUdevResource* resource, CUdevResourceType type) {
  return FindContext(context) == nullptr ? CUDA_ERROR_INVALID_CONTEXT : WholeDevice(resource, type);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx context, CUdevResource* resource, CUdevResourceType type) {
  return cuCtxGetDevResource(reinterpret_cast<CUcontext>(context), resource, type);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* groups, unsigned* count, const CUdevResource* input,
                                     CUdevResource* remaining, unsigned, unsigned smallest) {
  if (count == nullptr || input == nullptr || input->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
  const unsigned size = std::max(8u, (smallest + 7) / 8 * 8);  // in steps of 8, as on compute capability 9.0
  if (size > input->sm.smCount) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  const unsigned possible = input->sm.smCount / size;
  *count = groups == nullptr ? possible : std::min(*count, possible);
  if (groups == nullptr) return CUDA_SUCCESS;
  for (unsigned i = 0; i < *count; ++i) {
    groups[i] = *input;
    groups[i].sm.smCount = size;
  }
  if (remaining != nullptr) {
    *remaining = *input;
    remaining->sm.smCount = input->sm.smCount - *count * size;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources, unsigned count) {
  if (description == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  uintptr_t multiprocessors = 0;
  for (unsigned i = 0; i < count; ++i) multiprocessors += resources[i].sm.smCount;
  *description = reinterpret_cast<CUdevResourceDesc>(multiprocessors);
  return multiprocessors > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
}

CUresult cuGreenCtxCreate(CUgreenCtx* handle, CUdevResourceDesc description, CUdevice device, unsigned flags) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (handle == nullptr || description == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context = nullptr;
  const CUresult result = MakeGreenContext(device, 0, &context);
  if (result == CUDA_SUCCESS) *handle = reinterpret_cast<CUgreenCtx>(context);
  return result;
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle) { return DropGreenContext(reinterpret_cast<Context*>(handle)); }

CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx handle) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (FindContext(reinterpret_cast<CUcontext>(handle)) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *context = reinterpret_cast<CUcontext>(handle);
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long* id) {
  return cuCtxGetId(reinterpret_cast<CUcontext>(handle), id);
}

CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx handle, unsigned, int priority) {
  if (const CUresult result = cuCtxPushCurrent_v2(reinterpret_cast<CUcontext>(handle)); result != CUDA_SUCCESS) {
    return result;
  }
  const CUresult result = cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, priority);
  CUcontext popped = nullptr;
  cuCtxPopCurrent_v2(&popped);
  return result;
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Devices and their properties.
#include <cstring>

#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

int DeviceAttribute(CUdevice_attribute attribute, int device) {
  int value = 0;
  Driver().cuDeviceGetAttribute(&value, attribute, device);
  return value;
}

void FillLimits(cudaDeviceProp* properties, int device) {
  const auto get = [device](CUdevice_attribute attribute) { return DeviceAttribute(attribute, device); };
  const auto size = [device](CUdevice_attribute attribute) {
    return static_cast<size_t>(DeviceAttribute(attribute, device));
  };
  properties->sharedMemPerBlock = size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  properties->sharedMemPerBlockOptin = size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  properties->sharedMemPerMultiprocessor = size(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  properties->reservedSharedMemPerBlock = size(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  properties->totalConstMem = size(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  properties->memPitch = size(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  properties->textureAlignment = size(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  properties->texturePitchAlignment = size(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  properties->surfaceAlignment = size(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
  properties->regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  properties->regsPerMultiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  properties->warpSize = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  properties->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  properties->maxThreadsPerMultiProcessor = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  properties->maxBlocksPerMultiProcessor = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  properties->maxThreadsDim[0] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  properties->maxThreadsDim[1] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  properties->maxThreadsDim[2] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  properties->maxGridSize[0] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  properties->maxGridSize[1] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  properties->maxGridSize[2] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  properties->maxTexture1D = get(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH);
  properties->maxTexture2D[0] = get(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH);
  properties->maxTexture2D[1] = get(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT);
  properties->persistingL2CacheMaxSize = get(CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
  properties->accessPolicyMaxWindowSize = get(CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
  properties->l2CacheSize = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  properties->memoryBusWidth = get(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
}

void FillAbilities(cudaDeviceProp* properties, int device) {
  const auto get = [device](CUdevice_attribute attribute) { return DeviceAttribute(attribute, device); };
  properties->major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  properties->minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  properties->multiProcessorCount = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  properties->integrated = get(CU_DEVICE_ATTRIBUTE_INTEGRATED);
  properties->canMapHostMemory = get(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  properties->concurrentKernels = get(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  properties->ECCEnabled = get(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  properties->pciBusID = get(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  properties->asyncEngineCount = get(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  properties->unifiedAddressing = get(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  properties->streamPrioritiesSupported = get(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  properties->globalL1CacheSupported = get(CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED);
  properties->localL1CacheSupported = get(CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED);
  properties->managedMemory = get(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  properties->concurrentManagedAccess = get(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  properties->computePreemptionSupported = get(CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
  properties->canUseHostPointerForRegisteredMem = get(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  properties->cooperativeLaunch = get(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
#if CUDART_VERSION >= 12000
  properties->hostRegisterSupported = get(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  properties->memoryPoolsSupported = get(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  properties->memoryPoolSupportedHandleTypes =
      static_cast<unsigned>(get(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES));
  properties->clusterLaunch = get(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
  properties->unifiedFunctionPointers = get(CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS);
  properties->ipcEventSupported = get(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
#endif
#if CUDART_VERSION < 13000
  properties->clockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  properties->memoryClockRate = get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  properties->computeMode = get(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  properties->cooperativeMultiDeviceLaunch = get(CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH);
  properties->deviceOverlap = 1;
#endif
}

cudaError_t Describe(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_DRIVER();
  std::memset(properties, 0, sizeof *properties);
  const CUresult result = Driver().cuDeviceGetName(properties->name, sizeof properties->name, device);
  if (result != CUDA_SUCCESS) return Check(result);
  Driver().cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&properties->uuid), device);
  Driver().cuDeviceTotalMem(&properties->totalGlobalMem, device);
  FillLimits(properties, device);
  FillAbilities(properties, device);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return Fail(cudaErrorInvalidValue);
  *count = 0;
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceGetCount(count));
}

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return Fail(cudaErrorInvalidValue);
  SIMCUDA_NEED_DRIVER();
  CUdevice current = 0;
  CUcontext context = nullptr;
  Driver().cuCtxGetCurrent(&context);
  *device = context != nullptr && Driver().cuCtxGetDevice(&current) == CUDA_SUCCESS ? current : CurrentDevice();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const cudaError_t error = UseDevice(device);
  return error == cudaSuccess ? cudaSuccess : Fail(error);
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDevicePrimaryCtxSetFlags(CurrentDevice(), flags));
}

cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  SIMCUDA_NEED_DRIVER();
  int active = 0;
  return Check(Driver().cuDevicePrimaryCtxGetState(CurrentDevice(), flags, &active));
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return Fail(cudaErrorInvalidValue);
  *version = 0;
  if (EnsureDriver() == cudaErrorInsufficientDriver && Driver().cuDriverGetVersion == nullptr) return cudaSuccess;
  return Check(Driver().cuDriverGetVersion(version));
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Fail(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  SIMCUDA_NEED_DRIVER();  // the two APIs number attributes alike
  return Check(Driver().cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device));
}

#if CUDART_VERSION >= 12000 && CUDART_VERSION < 13000  // its name in CUDA 12, whose plain one has the older layout
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* properties, int device) { return Describe(properties, device); }
#else
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) { return Describe(properties, device); }
#endif

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceGetPCIBusId(text, length, device));
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceGetByPCIBusId(device, text));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuCtxGetLimit(value, static_cast<CUlimit>(limit)));
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuCtxSetLimit(static_cast<CUlimit>(limit), value));
}

cudaError_t cudaCtxResetPersistingL2Cache() {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuCtxResetPersistingL2Cache());
}

cudaError_t cudaDeviceSynchronize() {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuCtxSynchronize());
}

cudaError_t cudaDeviceReset() {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDevicePrimaryCtxReset(CurrentDevice()));
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int device, int peer) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attribute), device, peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  CUcontext context = nullptr;
  if (const CUresult result = Driver().cuDevicePrimaryCtxRetain(&context, peer); result != CUDA_SUCCESS) {
    return Check(result);
  }
  return Check(Driver().cuCtxEnablePeerAccess(context, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  SIMCUDA_NEED_CONTEXT();
  CUcontext context = nullptr;
  if (const CUresult result = Driver().cuDevicePrimaryCtxRetain(&context, peer); result != CUDA_SUCCESS) {
    return Check(result);
  }
  return Check(Driver().cuCtxDisablePeerAccess(context));
}

cudaError_t cudaProfilerStart() {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuProfilerStart());
}

cudaError_t cudaProfilerStop() {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuProfilerStop());
}

}  // extern "C"

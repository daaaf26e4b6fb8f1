// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the files of the runtime API share: the last error, the current device, and the lazily made primary context.
// They are compiled once for each major version of CUDA, against its headers; CUDART_VERSION tells where forms differ.
//
// Thread-safety: all functions may be called from any thread; last error and current device belong to the thread.
// Failure mode: errors are returned and remembered for cudaGetLastError.
// Example:
//   cudaError_t cudaFree(void* pointer) {
//     if (const cudaError_t error = EnsureContext(); error != cudaSuccess) return Fail(error);
//     return Check(Driver().cuMemFree(Pointer(pointer)));
//   }
#ifndef SIMCUDA_RUNTIME_RUNTIME_H_
#define SIMCUDA_RUNTIME_RUNTIME_H_

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace simcuda {

// The runtime's way to the driver, the real one's: dlopen("libcuda.so.1"), dlsym("cuGetProcAddress_v2"), then every
// function through what that answers for cuGetProcAddress. Whoever interposes any of these steps sees all driver calls.
//
// Thread-safety: the table is filled once, before anybody sees it. Ownership: never freed.
// Failure mode: LoadDriver() returns cudaErrorInsufficientDriver where there is no driver or an older major version; a
// function that the driver lacks is replaced by one that returns 801.
// Example: Driver().cuMemAlloc(&pointer, size)

// X(name, version): the form of the function as of that CUDA version.
// One a line; the formatter would make a staircase of it.
// clang-format off
#define SIMCUDA_DRIVER_FUNCTIONS(X) \
  X(cuArray3DCreate, 3020) \
  X(cuArray3DGetDescriptor, 3020) \
  X(cuArrayDestroy, 2000) \
  X(cuCtxGetCurrent, 4000) \
  X(cuCtxGetDevice, 2000) \
  X(cuCtxGetFlags, 7000) \
  X(cuCtxGetLimit, 3010) \
  X(cuCtxGetStreamPriorityRange, 5050) \
  X(cuCtxResetPersistingL2Cache, 11000) \
  X(cuCtxSetCurrent, 4000) \
  X(cuCtxSetLimit, 3010) \
  X(cuCtxSynchronize, 2000) \
  X(cuCtxEnablePeerAccess, 4000) \
  X(cuCtxDisablePeerAccess, 4000) \
  X(cuDestroyExternalMemory, 10000) \
  X(cuDeviceCanAccessPeer, 4000) \
  X(cuDeviceGet, 2000) \
  X(cuDeviceGetAttribute, 2000) \
  X(cuDeviceGetByPCIBusId, 4010) \
  X(cuDeviceGetCount, 2000) \
  X(cuDeviceGetDefaultMemPool, 11020) \
  X(cuDeviceGetGraphMemAttribute, 11040) \
  X(cuDeviceGetMemPool, 11020) \
  X(cuDeviceGetName, 2000) \
  X(cuDeviceGetP2PAttribute, 8000) \
  X(cuDeviceGetPCIBusId, 4010) \
  X(cuDeviceGetUuid, 11040) \
  X(cuDeviceGraphMemTrim, 11040) \
  X(cuDeviceSetGraphMemAttribute, 11040) \
  X(cuDevicePrimaryCtxGetState, 7000) \
  X(cuDevicePrimaryCtxReset, 7000) \
  X(cuDevicePrimaryCtxRetain, 7000) \
  X(cuDevicePrimaryCtxSetFlags, 11000) \
  X(cuDeviceSetMemPool, 11020) \
  X(cuDeviceTotalMem, 3020) \
  X(cuDriverGetVersion, 2020) \
  X(cuEventCreate, 2000) \
  X(cuEventDestroy, 4000) \
  X(cuEventElapsedTime, 12080) \
  X(cuEventQuery, 2000) \
  X(cuEventSynchronize, 2000) \
  X(cuExternalMemoryGetMappedBuffer, 10000) \
  X(cuExternalMemoryGetMappedMipmappedArray, 10000) \
  X(cuFuncGetAttribute, 2020) \
  X(cuFuncGetName, 12030) \
  X(cuFuncSetAttribute, 9000) \
  X(cuFuncSetCacheConfig, 3000) \
  X(cuGetErrorName, 6000) \
  X(cuGetErrorString, 6000) \
  X(cuGraphAddDependencies, 12030) \
  X(cuGraphAddEmptyNode, 10000) \
  X(cuGraphAddMemAllocNode, 11040) \
  X(cuGraphAddMemFreeNode, 11040) \
  X(cuGraphAddNode, 12030) \
  X(cuGraphClone, 10000) \
  X(cuGraphCreate, 10000) \
  X(cuGraphDebugDotPrint, 11030) \
  X(cuGraphDestroy, 10000) \
  X(cuGraphExecDestroy, 10000) \
  X(cuGraphExecUpdate, 12000) \
  X(cuGraphGetNodes, 10000) \
  X(cuGraphInstantiateWithFlags, 11040) \
  X(cuGraphNodeGetDependencies, 12030) \
  X(cuGraphMemAllocNodeGetParams, 11040) \
  X(cuGraphMemFreeNodeGetParams, 11040) \
  X(cuGraphNodeGetType, 10000) \
  X(cuImportExternalMemory, 10000) \
  X(cuInit, 2000) \
  X(cuIpcCloseMemHandle, 4010) \
  X(cuIpcGetEventHandle, 4010) \
  X(cuIpcGetMemHandle, 4010) \
  X(cuIpcOpenEventHandle, 4010) \
  X(cuIpcOpenMemHandle, 11000) \
  X(cuKernelGetFunction, 12000) \
  X(cuLibraryGetKernel, 12000) \
  X(cuLibraryLoadData, 12000) \
  X(cuMemAdvise, 12020) \
  X(cuMemAlloc, 3020) \
  X(cuMemAllocManaged, 6000) \
  X(cuMemAllocPitch, 3020) \
  X(cuMemFree, 3020) \
  X(cuMemFreeHost, 2000) \
  X(cuMemGetAddressRange, 3020) \
  X(cuMemGetDefaultMemPool, 13000) \
  X(cuMemGetInfo, 3020) \
  X(cuMemGetMemPool, 13000) \
  X(cuMemHostAlloc, 2020) \
  X(cuMemHostGetDevicePointer, 3020) \
  X(cuMemHostGetFlags, 2030) \
  X(cuMemHostRegister, 6050) \
  X(cuMemHostUnregister, 4000) \
  X(cuMemPoolCreate, 11020) \
  X(cuMemPoolDestroy, 11020) \
  X(cuMemPoolExportPointer, 11020) \
  X(cuMemPoolExportToShareableHandle, 11020) \
  X(cuMemPoolGetAccess, 11020) \
  X(cuMemPoolGetAttribute, 11020) \
  X(cuMemPoolImportFromShareableHandle, 11020) \
  X(cuMemPoolImportPointer, 11020) \
  X(cuMemPoolSetAccess, 11020) \
  X(cuMemPoolSetAttribute, 11020) \
  X(cuMemPoolTrimTo, 11020) \
  X(cuMemSetMemPool, 13000) \
  X(cuMipmappedArrayCreate, 5000) \
  X(cuMipmappedArrayDestroy, 5000) \
  X(cuMipmappedArrayGetLevel, 5000) \
  X(cuOccupancyAvailableDynamicSMemPerBlock, 10020) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000) \
  X(cuOccupancyMaxActiveClusters, 11070) \
  X(cuOccupancyMaxPotentialClusterSize, 11070) \
  X(cuPointerGetAttribute, 4000) \
  X(cuPointerGetAttributes, 7000) \
  X(cuProfilerStart, 4000) \
  X(cuProfilerStop, 4000) \
  X(cuStreamCreate, 2000) \
  X(cuStreamCreateWithPriority, 5050) \
  X(cuStreamDestroy, 4000) \
  X(cuThreadExchangeStreamCaptureMode, 10010)
// clang-format on

// X(name, version, version of the per-thread-stream form, its suffix)
// One a line; the formatter would make a staircase of it.
// clang-format off
#define SIMCUDA_STREAM_FUNCTIONS(X) \
  X(cuEventRecord, 2000, 7000, ptsz) \
  X(cuEventRecordWithFlags, 11010, 11010, ptsz) \
  X(cuGraphLaunch, 10000, 10000, ptsz) \
  X(cuGraphUpload, 11010, 11010, ptsz) \
  X(cuLaunchCooperativeKernel, 9000, 9000, ptsz) \
  X(cuLaunchHostFunc, 10000, 10000, ptsz) \
  X(cuLaunchKernel, 4000, 7000, ptsz) \
  X(cuLaunchKernelEx, 11060, 11060, ptsz) \
  X(cuMemAllocAsync, 11020, 11020, ptsz) \
  X(cuMemAllocFromPoolAsync, 11020, 11020, ptsz) \
  X(cuMemFreeAsync, 11020, 11020, ptsz) \
  X(cuMemPrefetchAsync, 12020, 12020, ptsz) \
  X(cuMemcpy, 4000, 7000, ptds) \
  X(cuMemcpyAsync, 4000, 7000, ptsz) \
  X(cuMemcpy2DAsync, 3020, 7000, ptsz) \
  X(cuMemcpy3DAsync, 3020, 7000, ptsz) \
  X(cuMemcpyPeerAsync, 4000, 7000, ptsz) \
  X(cuMemsetD8, 3020, 7000, ptds) \
  X(cuMemsetD8Async, 3020, 7000, ptsz) \
  X(cuMemsetD2D8Async, 3020, 7000, ptsz) \
  X(cuStreamAddCallback, 5000, 7000, ptsz) \
  X(cuStreamBeginCapture, 10010, 10010, ptsz) \
  X(cuStreamEndCapture, 10000, 10000, ptsz) \
  X(cuStreamGetCaptureInfo, 12030, 12030, ptsz) \
  X(cuStreamGetDevice, 12080, 12080, ptsz) \
  X(cuStreamGetFlags, 5050, 7000, ptsz) \
  X(cuStreamGetId, 12000, 12000, ptsz) \
  X(cuStreamGetPriority, 5050, 7000, ptsz) \
  X(cuStreamIsCapturing, 10000, 10000, ptsz) \
  X(cuStreamQuery, 2000, 7000, ptsz) \
  X(cuStreamSynchronize, 2000, 7000, ptsz) \
  X(cuStreamWaitEvent, 3020, 7000, ptsz)
// clang-format on

// The profiler's two functions have no typedefs in cudaTypedefs.h.
using PFN_cuProfilerStart_v4000 = CUresult (*)();
using PFN_cuProfilerStop_v4000 = CUresult (*)();

struct DriverTable {
#define SIMCUDA_MEMBER(name, version) PFN_##name##_v##version name = nullptr;
#define SIMCUDA_STREAM_MEMBER(name, version, ...) PFN_##name##_v##version name = nullptr;
  SIMCUDA_DRIVER_FUNCTIONS(SIMCUDA_MEMBER)
  SIMCUDA_STREAM_FUNCTIONS(SIMCUDA_STREAM_MEMBER)
#undef SIMCUDA_MEMBER
#undef SIMCUDA_STREAM_MEMBER
  PFN_cuMemAllocAsync_v11020 cuMemAllocAsync_ptsz = nullptr;
  PFN_cuMemAllocFromPoolAsync_v11020 cuMemAllocFromPoolAsync_ptsz = nullptr;
  PFN_cuMemFreeAsync_v11020 cuMemFreeAsync_ptsz = nullptr;
  PFN_cuGetProcAddress_v12000 cuGetProcAddress = nullptr;
  void* library = nullptr;
};

// Fills the table and calls cuInit, once a process; every later call gives the first one's result.
cudaError_t LoadDriver();

// Only after LoadDriver() succeeded.
const DriverTable& Driver();

// Remembers the error for cudaGetLastError and returns it.
cudaError_t Fail(cudaError_t error);

// A driver result as the runtime's: the numbers agree since CUDA 10.1.
inline cudaError_t Check(CUresult result) {
  return result == CUDA_SUCCESS ? cudaSuccess : Fail(static_cast<cudaError_t>(result));
}

cudaError_t LastError();
void ClearLastError();

// The driver, without a context.
cudaError_t EnsureDriver();

// The driver, and a context current on this thread: the one that is, else the primary one of the thread's device.
cudaError_t EnsureContext();

int CurrentDevice();

// Makes the device's primary context current on this thread.
cudaError_t UseDevice(int device);

// "cudaErrorMemoryAllocation", or null for a number that is not a cudaError_t. Generated.
const char* ErrorName(cudaError_t error);

// The driver's shape of an array; false for a format that no array has.
bool DescribeArray(const cudaChannelFormatDesc* format, const cudaExtent& extent, unsigned flags,
                   CUDA_ARRAY3D_DESCRIPTOR* shape);

inline CUdeviceptr Pointer(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace simcuda

// Returns with the error unless the driver and a context are there.
#define SIMCUDA_NEED_CONTEXT()                                                            \
  if (const cudaError_t need_error = simcuda::EnsureContext(); need_error != cudaSuccess) \
  return simcuda::Fail(need_error)
#define SIMCUDA_NEED_DRIVER()                                                            \
  if (const cudaError_t need_error = simcuda::EnsureDriver(); need_error != cudaSuccess) \
  return simcuda::Fail(need_error)

#endif  // SIMCUDA_RUNTIME_RUNTIME_H_

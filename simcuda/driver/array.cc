// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Arrays and mipmapped arrays.
#include "simcuda/device/granularity.h"
#include "simcuda/driver/capture.h"
#include "simcuda/driver/driver.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

CUresult CreateArray(const char* api, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels, uint64_t* handle) {
  Caller caller;
  if (const CUresult result = CurrentCaller(api, &caller); result != CUDA_SUCCESS) return result;
  if (const CUresult result = CheckUnsafeCall(); result != CUDA_SUCCESS) return result;
  return GetSimulation()->arrays.Create(caller, shape, levels, handle);
}

CUresult Destroy(const char* api, const void* handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = GetSimulation()->arrays.Destroy({.api = api}, reinterpret_cast<uint64_t>(handle));
  if (result == CUDA_SUCCESS)
    GetSimulation()->virtual_memory.DropTiles({.api = api}, reinterpret_cast<uint64_t>(handle));
  return result;
}

CUresult DescribeArray(const void* handle, CUDA_ARRAY3D_DESCRIPTOR* shape, uint64_t* bytes) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return GetSimulation()->arrays.Describe(reinterpret_cast<uint64_t>(handle), shape, bytes);
}

CUresult Requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* requirements, const void* handle) {
  CUDA_ARRAY3D_DESCRIPTOR shape;
  uint64_t bytes = 0;
  if (const CUresult result = DescribeArray(handle, &shape, &bytes); result != CUDA_SUCCESS) return result;
  *requirements = {};
  requirements->size = RoundUp(bytes, kGranule);
  requirements->alignment = kGranule;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  if (array == nullptr || shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t handle = 0;
  const CUresult result = CreateArray("cuArray3DCreate_v2", *shape, 0, &handle);
  if (result == CUDA_SUCCESS) *array = reinterpret_cast<CUarray>(handle);
  return result;
}

CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* shape) {
  if (array == nullptr || shape == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR full{};
  full.Width = shape->Width;
  full.Height = shape->Height;
  full.Format = shape->Format;
  full.NumChannels = shape->NumChannels;
  uint64_t handle = 0;
  const CUresult result = CreateArray("cuArrayCreate_v2", full, 0, &handle);
  if (result == CUDA_SUCCESS) *array = reinterpret_cast<CUarray>(handle);
  return result;
}

CUresult cuArrayDestroy(CUarray array) { return Destroy("cuArrayDestroy", array); }

CUresult cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned levels) {
  if (array == nullptr || shape == nullptr || levels == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t handle = 0;
  const CUresult result = CreateArray("cuMipmappedArrayCreate", *shape, levels, &handle);
  if (result == CUDA_SUCCESS) *array = reinterpret_cast<CUmipmappedArray>(handle);
  return result;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) { return Destroy("cuMipmappedArrayDestroy", array); }

CUresult cuMipmappedArrayGetLevel(CUarray* level_array, CUmipmappedArray array, unsigned level) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  uint64_t handle = 0;
  const CUresult result = GetSimulation()->arrays.Level(reinterpret_cast<uint64_t>(array), level, &handle);
  if (result == CUDA_SUCCESS) *level_array = reinterpret_cast<CUarray>(handle);
  return result;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* shape, CUarray array) {
  uint64_t bytes = 0;
  return DescribeArray(array, shape, &bytes);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* shape, CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR full;
  uint64_t bytes = 0;
  if (const CUresult result = DescribeArray(array, &full, &bytes); result != CUDA_SUCCESS) return result;
  *shape = {.Width = full.Width, .Height = full.Height, .Format = full.Format, .NumChannels = full.NumChannels};
  return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* requirements, CUarray array, CUdevice) {
  return Requirements(requirements, array);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* requirements, CUmipmappedArray array,
                                               CUdevice) {
  return Requirements(requirements, array);
}

}  // extern "C"

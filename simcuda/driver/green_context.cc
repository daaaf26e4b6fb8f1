// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Green contexts: a part of a device's multiprocessors. They keep the primary context and share its memory; what one
// takes itself is SIMCUDA_GREEN_CTX_MB, a guess.
#include <algorithm>
#include <memory>

#include "simcuda/base/environment.h"
#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

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

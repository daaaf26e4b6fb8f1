// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Arrays and mipmapped arrays.
#include "simcuda/device/granularity.h"
#include "simcuda/driver/capture.h"
#include "simcuda/driver/driver.h"
#include "simcuda/driver/stream.h"

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

namespace {

// Sparse arrays: their memory is mapped tile by tile from cuMemCreate's handles.

constexpr uint64_t kTileBytes = 64 << 10;

CUresult DescribeSparseArray(CUDA_ARRAY_SPARSE_PROPERTIES* properties, const void* array) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const bool sparse =
      properties != nullptr && GetSimulation()->arrays.DescribeSparse(reinterpret_cast<uint64_t>(array), properties);
  return sparse ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

uint64_t Tiles(unsigned extent, unsigned tile) { return extent == 0 ? 1 : (extent + tile - 1) / tile; }

// Where in which array, and how many bytes.
CUresult Locate(const CUarrayMapInfo& info, VirtualMemory::Tile* tile, uint64_t* bytes) {
  const bool mipmapped = info.resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  const void* const array = mipmapped ? static_cast<const void*>(info.resource.mipmap) : info.resource.array;
  CUDA_ARRAY_SPARSE_PROPERTIES properties;
  if (const CUresult result = DescribeSparseArray(&properties, array); result != CUDA_SUCCESS) return result;
  const auto handle = reinterpret_cast<uint64_t>(array);
  if (info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
    const auto& tail = info.subresource.miptail;
    *tile = {handle, ~uint64_t{0}, tail.layer, tail.offset, 0, 0};
    *bytes = tail.size;
    return tail.size > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const auto& level = info.subresource.sparseLevel;
  *tile = {handle, level.level, level.layer, level.offsetX, level.offsetY, level.offsetZ};
  *bytes = Tiles(level.extentWidth, properties.tileExtent.width) *
           Tiles(level.extentHeight, properties.tileExtent.height) *
           Tiles(level.extentDepth, properties.tileExtent.depth) * kTileBytes;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* properties, CUarray array) {
  return DescribeSparseArray(properties, array);
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* properties, CUmipmappedArray array) {
  return DescribeSparseArray(properties, array);
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo* infos, unsigned count, CUstream stream) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuMemMapArrayAsync", &caller); result != CUDA_SUCCESS) return result;
  StreamState state;
  if (const CUresult result = LookUpStream(stream, &state); result != CUDA_SUCCESS) return result;
  if (infos == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (state.capturing) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  caller.stream = reinterpret_cast<uint64_t>(stream);
  VirtualMemory& memory = GetSimulation()->virtual_memory;
  for (unsigned i = 0; i < count; ++i) {
    VirtualMemory::Tile tile;
    uint64_t bytes = 0;
    if (const CUresult result = Locate(infos[i], &tile, &bytes); result != CUDA_SUCCESS) return result;
    const bool maps = infos[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP;
    const CUresult result =
        maps ? memory.MapTile(caller, tile, bytes, infos[i].memHandle.memHandle) : memory.UnmapTile(caller, tile);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"

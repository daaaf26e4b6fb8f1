// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Sparse arrays: their memory is mapped tile by tile from cuMemCreate's handles.
#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

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

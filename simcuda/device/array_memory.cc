// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/device/array_memory.h"

#include <algorithm>

#include "simcuda/device/granularity.h"

namespace simcuda {
namespace {

uint64_t FormatBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

CUDA_ARRAY3D_DESCRIPTOR LevelShape(CUDA_ARRAY3D_DESCRIPTOR shape, unsigned level) {
  const auto halve = [level](size_t extent) { return extent == 0 ? 0 : std::max<size_t>(extent >> level, 1); };
  shape.Width = halve(shape.Width);
  shape.Height = halve(shape.Height);
  const bool layered = (shape.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  if (!layered) shape.Depth = halve(shape.Depth);
  return shape;
}

constexpr unsigned kMaxLevels = 32;
constexpr uint64_t kTileBytes = 64 << 10;

uint64_t BytesOfLevels(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  uint64_t bytes = 0;
  for (unsigned level = 0; level < levels && level < kMaxLevels; ++level) bytes += ArrayBytes(LevelShape(shape, level));
  return bytes;
}

bool IsSparse(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  return (shape.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0;
}

}  // namespace

uint64_t ArrayBytes(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  const auto extent = [](size_t value) { return std::max<uint64_t>(value, 1); };
  return extent(shape.Width) * extent(shape.Height) * extent(shape.Depth) * shape.NumChannels *
         FormatBytes(shape.Format);
}

void ArrayMemory::AddLevels(Array* array, unsigned count) {
  for (unsigned level = 0; level < count; ++level) {
    array->levels.push_back(machine_->NextId());
    arrays_[array->levels.back()] = {
        .shape = LevelShape(array->shape, level), .device = array->device, .is_level = true, .sparse = array->sparse};
  }
}

CUresult ArrayMemory::Create(const Caller& caller, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels,
                             uint64_t* handle) {
  const std::lock_guard lock(machine_->mutex);
  Array array{.shape = shape, .device = caller.device, .context = caller.context, .sparse = IsSparse(shape)};
  const unsigned level_count = std::max(levels, 1u);
  array.bytes = BytesOfLevels(shape, level_count);
  CUresult result = CUDA_SUCCESS;
  if (shape.Width == 0 || ArrayBytes(shape) == 0 || level_count > kMaxLevels) result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && !array.sparse) result = machine_->NextForcedFailure();
  const bool charged =
      array.sparse || result != CUDA_SUCCESS || machine_->device(caller.device).Charge(RoundUp(array.bytes, kGranule));
  if (!charged) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    machine_->Log(
        {.api = caller.api, .kind = "array_failed", .device = caller.device, .size = array.bytes, .result = result});
    return result;
  }
  if (!array.sparse) machine_->device(caller.device).AddLive(array.bytes);
  *handle = machine_->NextId();
  AddLevels(&array, levels);
  machine_->Log({.api = caller.api,
                 .kind = array.sparse ? "sparse_create" : "array_create",
                 .device = caller.device,
                 .size = array.bytes,
                 .handle = *handle});
  arrays_.emplace(*handle, std::move(array));
  return CUDA_SUCCESS;
}

CUresult ArrayMemory::CreateView(const Caller& caller, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels,
                                 uint64_t external, uint64_t* handle) {
  const std::lock_guard lock(machine_->mutex);
  if (ArrayBytes(shape) == 0 || levels == 0 || levels > kMaxLevels) return CUDA_ERROR_INVALID_VALUE;
  Array array{.shape = shape, .device = caller.device, .context = caller.context, .view = true};
  array.bytes = BytesOfLevels(shape, levels);
  *handle = machine_->NextId();
  AddLevels(&array, levels);
  machine_->Log({.api = caller.api,
                 .kind = "external_map",
                 .device = caller.device,
                 .address = *handle,
                 .size = array.bytes,
                 .handle = external});
  arrays_.emplace(*handle, std::move(array));
  return CUDA_SUCCESS;
}

void ArrayMemory::Remove(const Caller& caller, std::unordered_map<uint64_t, Array>::iterator found) {
  const uint64_t handle = found->first;
  const Array array = std::move(found->second);
  arrays_.erase(found);
  for (const uint64_t level : array.levels) arrays_.erase(level);
  const bool own = !array.sparse && !array.view;
  if (own) {
    machine_->device(array.device).Discharge(RoundUp(array.bytes, kGranule));
    machine_->device(array.device).RemoveLive(array.bytes);
    ++machine_->free_calls;
  }
  machine_->Log({.api = caller.api,
                 .kind = own            ? "array_destroy"
                         : array.sparse ? "sparse_destroy"
                                        : "external_unmap",
                 .device = array.device,
                 .address = array.view ? handle : 0,
                 .size = array.bytes,
                 .handle = array.view ? 0 : handle});
}

bool ArrayMemory::DescribeSparse(uint64_t handle, CUDA_ARRAY_SPARSE_PROPERTIES* properties) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = arrays_.find(handle);
  if (found == arrays_.end() || !found->second.sparse) return false;
  const Array& array = found->second;
  *properties = {};
  // 64 KiB a tile, as square as a power of two allows: the shapes that graphics interfaces name the standard ones.
  uint64_t elements = kTileBytes / (FormatBytes(array.shape.Format) * array.shape.NumChannels);
  unsigned width = 1, height = 1;
  for (; elements > 1; elements /= 2) (width <= height ? width : height) *= 2;
  properties->tileExtent = {width, height, 1};
  const auto levels = static_cast<unsigned>(array.levels.size());
  for (unsigned level = 0; level < levels; ++level) {
    const CUDA_ARRAY3D_DESCRIPTOR shape = LevelShape(array.shape, level);
    if (properties->miptailSize == 0 && (shape.Width < width || shape.Height < height)) {
      properties->miptailSize = kTileBytes;  // all levels that are smaller than a tile share one
      properties->miptailFirstLevel = level;
    }
  }
  if (properties->miptailSize == 0) properties->miptailFirstLevel = levels;
  return true;
}

CUresult ArrayMemory::Destroy(const Caller& caller, uint64_t handle) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = arrays_.find(handle);
  if (found == arrays_.end() || found->second.is_level) return CUDA_ERROR_INVALID_HANDLE;
  Remove(caller, found);
  return CUDA_SUCCESS;
}

CUresult ArrayMemory::Describe(uint64_t handle, CUDA_ARRAY3D_DESCRIPTOR* shape, uint64_t* bytes) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = arrays_.find(handle);
  if (found == arrays_.end()) return CUDA_ERROR_INVALID_HANDLE;
  *shape = found->second.shape;
  *bytes = found->second.is_level ? ArrayBytes(found->second.shape) : found->second.bytes;
  return CUDA_SUCCESS;
}

CUresult ArrayMemory::Level(uint64_t handle, unsigned level, uint64_t* level_handle) {
  const std::lock_guard lock(machine_->mutex);
  const auto found = arrays_.find(handle);
  if (found == arrays_.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (level >= found->second.levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *level_handle = found->second.levels[level];
  return CUDA_SUCCESS;
}

void ArrayMemory::DropContext(const Caller& caller) {
  const std::lock_guard lock(machine_->mutex);
  for (auto at = arrays_.begin(); at != arrays_.end();) {
    const auto current = at++;
    if (!current->second.is_level && current->second.context == caller.context) {
      Remove(caller, current);
      at = arrays_.begin();  // the levels of a mipmapped array went with it
    }
  }
}

}  // namespace simcuda

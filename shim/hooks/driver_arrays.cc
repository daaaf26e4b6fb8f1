// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The driver's arrays and mipmaps: opaque handles, in a key space apart from addresses (Memory::kArray).

#include "shim/hooks/array_size.h"
#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

// Descriptors without a depth are two-dimensional.
template <typename Descriptor>
ArrayShape ShapeOf(const Descriptor* desc) {
  if (desc == nullptr) return {0, 0, 0, 0};
  uint64_t depth = 0;
  if constexpr (requires { desc->Depth; }) depth = desc->Depth;
  return {desc->Width, desc->Height, depth, ElementBytes(desc->Format, desc->NumChannels)};
}

// Sparse arrays, and those whose mapping is deferred, get their memory by cuMemMapArrayAsync, if at all.
template <typename Descriptor>
bool HasMemory(const Descriptor* desc) {
  if constexpr (requires { desc->Flags; }) {
    return desc == nullptr || (desc->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0;
  }
  return true;
}

template <typename Real, typename Array, typename Descriptor>
CUresult Create(ApiId api, Real real, const Array* out, const Descriptor* desc, uint32_t levels = 1) {
  return RecordAfter(api, EventKind::kAlloc, Memory::kArray, real, [&](Event& event, bool succeeded) {
    event.size = MipmapBytes(ShapeOf(desc), levels);
    event.device = CurrentDevice();
    event.handle = OwnContext();
    if (!HasMemory(desc)) {
      event.requested_size = event.size;
      event.size = 0;
    }
    if (succeeded && out != nullptr) event.address = AddressOf(*out);
  });
}

// One event an array: the physical memory that it holds from now on, or lets go.
template <typename Real>
CUresult MapArrays(ApiId api, Real real, const CUarrayMapInfo* list, unsigned int count, CUstream stream) {
  const Scope scope;
  const CUresult result = real();
  if (!scope.outermost() || result != CUDA_SUCCESS || list == nullptr) return result;
  const ErrnoSaver saver;
  for (unsigned int i = 0; i < count; ++i) {
    const CUarrayMapInfo& info = list[i];
    const bool maps = info.memOperationType == CU_MEM_OPERATION_TYPE_MAP;
    Event event = MakeEvent(api, maps ? EventKind::kMap : EventKind::kUnmap, Memory::kArray);
    event.address = info.resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY ? AddressOf(info.resource.mipmap)
                                                                          : AddressOf(info.resource.array);
    event.handle = maps ? info.memHandle.memHandle : 0;
    event.stream = AddressOf(stream);
    event.device = CurrentDevice();
    Emit(event);
  }
  return result;
}

template <typename Real>
CUresult Destroy(ApiId api, Real real, uint64_t handle) {
  if (handle == 0) return real();
  return RecordBefore(
      api, EventKind::kFree, Memory::kArray, [&](Event& event) { event.address = handle; }, real);
}

}  // namespace
}  // namespace gpumemshim::hooks

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR_v1* desc) {
  const auto real = GPUMEM_REAL(cuArrayCreate);
  if (real == nullptr) return kMissingDriver;
  return Create(
      ApiId::kcuArrayCreate, [&] { return real(out, desc); }, out, desc);
}

CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* desc) {
  const auto real = GPUMEM_REAL(cuArrayCreate_v2);
  if (real == nullptr) return kMissingDriver;
  return Create(
      ApiId::kcuArrayCreate_v2, [&] { return real(out, desc); }, out, desc);
}

CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR_v1* desc) {
  const auto real = GPUMEM_REAL(cuArray3DCreate);
  if (real == nullptr) return kMissingDriver;
  return Create(
      ApiId::kcuArray3DCreate, [&] { return real(out, desc); }, out, desc);
}

CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* desc) {
  const auto real = GPUMEM_REAL(cuArray3DCreate_v2);
  if (real == nullptr) return kMissingDriver;
  return Create(
      ApiId::kcuArray3DCreate_v2, [&] { return real(out, desc); }, out, desc);
}

CUresult cuArrayDestroy(CUarray array) {
  const auto real = GPUMEM_REAL(cuArrayDestroy);
  if (real == nullptr) return kMissingDriver;
  return Destroy(
      ApiId::kcuArrayDestroy, [&] { return real(array); }, AddressOf(array));
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* desc, unsigned int levels) {
  const auto real = GPUMEM_REAL(cuMipmappedArrayCreate);
  if (real == nullptr) return kMissingDriver;
  return Create(
      ApiId::kcuMipmappedArrayCreate, [&] { return real(out, desc, levels); }, out, desc, levels);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  const auto real = GPUMEM_REAL(cuMipmappedArrayDestroy);
  if (real == nullptr) return kMissingDriver;
  return Destroy(
      ApiId::kcuMipmappedArrayDestroy, [&] { return real(array); }, AddressOf(array));
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo* list, unsigned int count, CUstream stream) {
  const auto real = GPUMEM_REAL(cuMemMapArrayAsync);
  if (real == nullptr) return kMissingDriver;
  return MapArrays(
      ApiId::kcuMemMapArrayAsync, [&] { return real(list, count, stream); }, list, count, stream);
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo* list, unsigned int count, CUstream stream) {
  const auto real = GPUMEM_REAL(cuMemMapArrayAsync_ptsz);
  if (real == nullptr) return kMissingDriver;
  return MapArrays(
      ApiId::kcuMemMapArrayAsync_ptsz, [&] { return real(list, count, stream); }, list, count, stream);
}

}  // extern "C"

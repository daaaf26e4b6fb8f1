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
  return {desc->Width, desc->Height, depth, FormatBytes(desc->Format) * AtLeastOne(desc->NumChannels)};
}

template <typename Real, typename Array, typename Descriptor>
CUresult Create(ApiId api, Real real, const Array* out, const Descriptor* desc, uint32_t levels = 1) {
  return RecordAfter(api, EventKind::kAlloc, Memory::kArray, real, [&](Event& event, bool succeeded) {
    event.size = MipmapBytes(ShapeOf(desc), levels);
    event.device = CurrentDevice();
    if (succeeded && out != nullptr) event.address = AddressOf(*out);
  });
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

}  // extern "C"

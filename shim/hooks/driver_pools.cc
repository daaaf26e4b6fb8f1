// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The driver's stream-ordered memory and its pools.

#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

template <typename Real>
CUresult AllocOnStream(ApiId api, Real real, const CUdeviceptr* out, uint64_t bytes, uint64_t pool, CUstream stream) {
  return RecordAfter(api, EventKind::kAlloc, Memory::kStreamOrdered, real, [&](Event& event, bool succeeded) {
    event.size = bytes;
    event.stream = AddressOf(stream);
    event.handle = pool;
    if (succeeded && out != nullptr) event.address = *out;
    event.device = succeeded ? DeviceOfStreamAllocation(event.stream, event.address) : CurrentDevice();
  });
}

template <typename Real>
CUresult FreeOnStream(ApiId api, Real real, CUdeviceptr address, CUstream stream) {
  if (address == 0) return real();
  return RecordBefore(
      api, EventKind::kFree, Memory::kStreamOrdered,
      [&](Event& event) {
        event.address = address;
        event.stream = AddressOf(stream);
      },
      real);
}

}  // namespace
}  // namespace gpumemshim::hooks

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  const auto real = GPUMEM_REAL(cuMemAllocAsync);
  if (real == nullptr) return kMissingDriver;
  return AllocOnStream(
      ApiId::kcuMemAllocAsync, [&] { return real(out, bytes, stream); }, out, bytes, 0, stream);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr* out, size_t bytes, CUstream stream) {
  const auto real = GPUMEM_REAL(cuMemAllocAsync_ptsz);
  if (real == nullptr) return kMissingDriver;
  return AllocOnStream(
      ApiId::kcuMemAllocAsync_ptsz, [&] { return real(out, bytes, stream); }, out, bytes, 0, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  const auto real = GPUMEM_REAL(cuMemAllocFromPoolAsync);
  if (real == nullptr) return kMissingDriver;
  return AllocOnStream(
      ApiId::kcuMemAllocFromPoolAsync, [&] { return real(out, bytes, pool, stream); }, out, bytes, AddressOf(pool),
      stream);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  const auto real = GPUMEM_REAL(cuMemAllocFromPoolAsync_ptsz);
  if (real == nullptr) return kMissingDriver;
  return AllocOnStream(
      ApiId::kcuMemAllocFromPoolAsync_ptsz, [&] { return real(out, bytes, pool, stream); }, out, bytes, AddressOf(pool),
      stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  const auto real = GPUMEM_REAL(cuMemFreeAsync);
  if (real == nullptr) return kMissingDriver;
  return FreeOnStream(
      ApiId::kcuMemFreeAsync, [&] { return real(address, stream); }, address, stream);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  const auto real = GPUMEM_REAL(cuMemFreeAsync_ptsz);
  if (real == nullptr) return kMissingDriver;
  return FreeOnStream(
      ApiId::kcuMemFreeAsync_ptsz, [&] { return real(address, stream); }, address, stream);
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  const auto real = GPUMEM_REAL(cuMemPoolCreate);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMemPoolCreate, EventKind::kPoolCreate, Memory::kStreamOrdered, [&] { return real(out, props); },
      [&](Event& event, bool) {
        const bool on_device = props != nullptr && props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
        event.device = on_device ? static_cast<int16_t>(props->location.id) : kNoDevice;
        if (out != nullptr) event.handle = AddressOf(*out);
      });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const auto real = GPUMEM_REAL(cuMemPoolDestroy);
  if (real == nullptr) return kMissingDriver;
  return RecordBefore(
      ApiId::kcuMemPoolDestroy, EventKind::kPoolDestroy, Memory::kStreamOrdered,
      [&](Event& event) { event.handle = AddressOf(pool); }, [&] { return real(pool); });
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_to_keep) {
  const auto real = GPUMEM_REAL(cuMemPoolTrimTo);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMemPoolTrimTo, EventKind::kPoolTrim, Memory::kStreamOrdered, [&] { return real(pool, bytes_to_keep); },
      [&](Event& event, bool) {
        event.handle = AddressOf(pool);
        event.size = bytes_to_keep;
      });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The driver's stream-ordered memory and its pools. A pool's memory is where the pool is.

#include "shim/hooks/capture.h"
#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/measure.h"
#include "shim/hooks/pool_location.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

// While the stream is captured, the call makes a node of a graph and no memory.
template <typename Real>
CUresult AllocOnStream(ApiId api, Real real, const CUdeviceptr* out, uint64_t bytes, uint64_t pool, CUstream stream,
                       bool per_thread = false) {
  return RecordAfter(api, EventKind::kAlloc, Memory::kStreamOrdered, real, [&](Event& event, bool succeeded) {
    event.size = bytes;
    event.stream = AddressOf(stream);
    event.handle = pool;
    if (succeeded && out != nullptr) event.address = *out;
    event.device = succeeded ? DeviceOfStreamAllocation(event.stream, event.address) : CurrentDevice();
    if (succeeded && capture::IsCapturing(stream, per_thread)) capture::MarkNode(event);
  });
}

template <typename Real>
CUresult FreeOnStream(ApiId api, Real real, CUdeviceptr address, CUstream stream, bool per_thread = false) {
  if (address == 0) return real();
  const auto fill = [&](Event& event) {
    event.address = address;
    event.stream = AddressOf(stream);
  };
  if (capture::IsCapturing(stream, per_thread)) {
    return RecordAfter(api, EventKind::kGraphNodeFree, Memory::kStreamOrdered, real,
                       [&](Event& event, bool) { fill(event); });
  }
  return RecordBefore(api, EventKind::kFree, Memory::kStreamOrdered, fill, real);
}

// What is remembered of a pool beside its life: its release threshold, and whose current pool it became.
template <typename Real, typename Fill>
CUresult SetPool(ApiId api, bool wanted, CUmemoryPool pool, Real real, Fill fill) {
  if (!wanted) return real();
  return RecordAfter(api, EventKind::kPoolSetting, Memory::kStreamOrdered, real, [&](Event& event, bool) {
    event.handle = AddressOf(pool);
    fill(event);
  });
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
      ApiId::kcuMemAllocAsync_ptsz, [&] { return real(out, bytes, stream); }, out, bytes, 0, stream, true);
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
      stream, true);
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
      ApiId::kcuMemFreeAsync_ptsz, [&] { return real(address, stream); }, address, stream, true);
}

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  const auto real = GPUMEM_REAL(cuMemPoolCreate);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMemPoolCreate, EventKind::kPoolCreate, Memory::kStreamOrdered, [&] { return real(out, props); },
      [&](Event& event, bool) {
        LocatePool(event, props);
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
        event.requested_size = PoolReserved(pool);
      });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  const auto real = GPUMEM_REAL(cuMemPoolSetAttribute);
  if (real == nullptr) return kMissingDriver;
  return SetPool(
      ApiId::kcuMemPoolSetAttribute, attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, pool,
      [&] { return real(pool, attribute, value); },
      [&](Event& event) {
        if (value != nullptr) event.size = *static_cast<const cuuint64_t*>(value);
      });
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  const auto real = GPUMEM_REAL(cuDeviceSetMemPool);
  if (real == nullptr) return kMissingDriver;
  return SetPool(
      ApiId::kcuDeviceSetMemPool, true, pool, [&] { return real(device, pool); },
      [&](Event& event) { event.device = static_cast<int16_t>(device); });
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  const auto real = GPUMEM_REAL(cuMemSetMemPool);
  if (real == nullptr) return kMissingDriver;
  return SetPool(
      ApiId::kcuMemSetMemPool, location != nullptr, pool, [&] { return real(location, type, pool); },
      [&](Event& event) {
        if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) event.device = static_cast<int16_t>(location->id);
      });
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* handle, CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  const auto real = GPUMEM_REAL(cuMemPoolImportFromShareableHandle);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMemPoolImportFromShareableHandle, EventKind::kPoolCreate, Memory::kExternal,
      [&] { return real(out, handle, type, flags); },
      [&](Event& event, bool) {
        if (out != nullptr) event.handle = AddressOf(*out);
      });
}

CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  const auto real = GPUMEM_REAL(cuMemPoolImportPointer);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMemPoolImportPointer, EventKind::kImport, Memory::kStreamOrdered, [&] { return real(out, pool, data); },
      [&](Event& event, bool) {
        event.handle = AddressOf(pool);
        if (out == nullptr) return;
        event.address = *out;
        event.device = DeviceOfAddress(*out);
        event.size = SizeOfAddress(*out);
      });
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The runtime's memory: linear memory on the device (plain, pitched, managed and stream-ordered), pinned host memory,
// arrays and mipmaps, pools, and memory opened from another process.

#include "shim/hooks/array_size.h"
#include "shim/hooks/capture.h"
#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/measure.h"
#include "shim/hooks/pool_location.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

template <typename Real>
cudaError_t Malloc(ApiId api, Memory memory, Real real, void** out, uint64_t bytes) {
  return RecordAfter(api, EventKind::kAlloc, memory, real, [&](Event& event, bool succeeded) {
    event.size = bytes;
    event.device = CurrentDevice();
    event.handle = OwnContext();
    if (succeeded && out != nullptr) event.address = AddressOf(*out);
  });
}

// While the stream is captured, the call makes a node of a graph and no memory.
template <typename Real>
cudaError_t MallocOnStream(ApiId api, Real real, void** out, uint64_t bytes, uint64_t pool, cudaStream_t stream,
                           bool per_thread = false) {
  return RecordAfter(api, EventKind::kAlloc, Memory::kStreamOrdered, real, [&](Event& event, bool succeeded) {
    event.size = bytes;
    event.stream = AddressOf(stream);
    event.handle = pool;
    if (succeeded && out != nullptr) event.address = AddressOf(*out);
    event.device = succeeded ? DeviceOfStreamAllocation(event.stream, event.address) : CurrentDevice();
    if (succeeded && capture::IsCapturing(stream, per_thread)) capture::MarkNode(event);
  });
}

template <typename Real>
cudaError_t Free(ApiId api, Real real, void* address) {
  if (address == nullptr) return real();  // a no-op, or a way to create the context
  return RecordBefore(
      api, EventKind::kFree, Memory::kDevice, [&](Event& event) { event.address = AddressOf(address); }, real);
}

template <typename Real>
cudaError_t FreeOnStream(ApiId api, Real real, void* address, cudaStream_t stream, bool per_thread = false) {
  if (address == nullptr) return real();
  const auto fill = [&](Event& event) {
    event.address = AddressOf(address);
    event.stream = AddressOf(stream);
  };
  if (capture::IsCapturing(stream, per_thread)) {
    return RecordAfter(api, EventKind::kGraphNodeFree, Memory::kStreamOrdered, real,
                       [&](Event& event, bool) { fill(event); });
  }
  return RecordBefore(api, EventKind::kFree, Memory::kStreamOrdered, fill, real);
}

}  // namespace
}  // namespace gpumemshim::hooks

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

cudaError_t cudaMalloc(void** out, size_t bytes) {
  const auto real = GPUMEM_REAL(cudaMalloc);
  if (real == nullptr) return kMissingRuntime;
  return Malloc(
      ApiId::kcudaMalloc, Memory::kDevice, [&] { return real(out, bytes); }, out, bytes);
}

cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned int flags) {
  const auto real = GPUMEM_REAL(cudaMallocManaged);
  if (real == nullptr) return kMissingRuntime;
  return Malloc(
      ApiId::kcudaMallocManaged, Memory::kManaged, [&] { return real(out, bytes, flags); }, out, bytes);
}

cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  const auto real = GPUMEM_REAL(cudaMallocPitch);
  if (real == nullptr) return kMissingRuntime;
  return RecordAfter(
      ApiId::kcudaMallocPitch, EventKind::kAlloc, Memory::kDevice, [&] { return real(out, pitch, width, height); },
      [&](Event& event, bool succeeded) {
        event.size = width * height;
        event.device = CurrentDevice();
        event.handle = OwnContext();
        if (!succeeded || out == nullptr) return;
        event.address = AddressOf(*out);
        event.requested_size = event.size;
        if (pitch != nullptr) event.size = *pitch * height;
      });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* out, cudaExtent extent) {
  const auto real = GPUMEM_REAL(cudaMalloc3D);
  if (real == nullptr) return kMissingRuntime;
  return RecordAfter(
      ApiId::kcudaMalloc3D, EventKind::kAlloc, Memory::kDevice, [&] { return real(out, extent); },
      [&](Event& event, bool succeeded) {
        event.size = extent.width * extent.height * extent.depth;
        event.device = CurrentDevice();
        event.handle = OwnContext();
        if (!succeeded || out == nullptr) return;
        event.address = AddressOf(out->ptr);
        event.requested_size = event.size;
        event.size = out->pitch * extent.height * extent.depth;
      });
}

cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t stream) {
  const auto real = GPUMEM_REAL(cudaMallocAsync);
  if (real == nullptr) return kMissingRuntime;
  return MallocOnStream(
      ApiId::kcudaMallocAsync, [&] { return real(out, bytes, stream); }, out, bytes, 0, stream);
}

cudaError_t cudaMallocAsync_ptsz(void** out, size_t bytes, cudaStream_t stream) {
  const auto real = GPUMEM_REAL(cudaMallocAsync_ptsz);
  if (real == nullptr) return kMissingRuntime;
  return MallocOnStream(
      ApiId::kcudaMallocAsync_ptsz, [&] { return real(out, bytes, stream); }, out, bytes, 0, stream, true);
}

cudaError_t cudaMallocFromPoolAsync(void** out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  const auto real = GPUMEM_REAL(cudaMallocFromPoolAsync);
  if (real == nullptr) return kMissingRuntime;
  return MallocOnStream(
      ApiId::kcudaMallocFromPoolAsync, [&] { return real(out, bytes, pool, stream); }, out, bytes, AddressOf(pool),
      stream);
}

cudaError_t cudaMallocFromPoolAsync_ptsz(void** out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  const auto real = GPUMEM_REAL(cudaMallocFromPoolAsync_ptsz);
  if (real == nullptr) return kMissingRuntime;
  return MallocOnStream(
      ApiId::kcudaMallocFromPoolAsync_ptsz, [&] { return real(out, bytes, pool, stream); }, out, bytes, AddressOf(pool),
      stream, true);
}

cudaError_t cudaFree(void* address) {
  const auto real = GPUMEM_REAL(cudaFree);
  if (real == nullptr) return kMissingRuntime;
  return Free(
      ApiId::kcudaFree, [&] { return real(address); }, address);
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  const auto real = GPUMEM_REAL(cudaFreeAsync);
  if (real == nullptr) return kMissingRuntime;
  return FreeOnStream(
      ApiId::kcudaFreeAsync, [&] { return real(address, stream); }, address, stream);
}

cudaError_t cudaFreeAsync_ptsz(void* address, cudaStream_t stream) {
  const auto real = GPUMEM_REAL(cudaFreeAsync_ptsz);
  if (real == nullptr) return kMissingRuntime;
  return FreeOnStream(
      ApiId::kcudaFreeAsync_ptsz, [&] { return real(address, stream); }, address, stream, true);
}

cudaError_t cudaDeviceReset() {
  const auto real = GPUMEM_REAL(cudaDeviceReset);
  if (real == nullptr) return kMissingRuntime;
  return RecordBefore(
      ApiId::kcudaDeviceReset, EventKind::kDeviceReset, Memory::kDevice,
      [](Event& event) { event.device = CurrentDevice(); }, real);
}

}  // extern "C"

namespace gpumemshim::hooks {
namespace {

// The runtime's other memory: pinned host memory, arrays and mipmaps, pools, and memory opened from another process.

template <typename Real>
cudaError_t HostAlloc(ApiId api, Real real, void** out, uint64_t bytes) {
  return RecordAfter(api, EventKind::kAlloc, Memory::kHostPinned, real, [&](Event& event, bool succeeded) {
    event.size = bytes;
    if (!succeeded) return;  // what ran out is the host's, no device's
    event.handle = OwnContext();
    event.device = CurrentDevice();
    if (out != nullptr) event.address = AddressOf(*out);
  });
}

template <typename Real, typename Array>
cudaError_t ArrayAlloc(ApiId api, Real real, Array* out, const cudaChannelFormatDesc* desc, cudaExtent extent,
                       uint32_t levels, unsigned int flags) {
  const bool has_memory = (flags & (cudaArraySparse | cudaArrayDeferredMapping)) == 0;
  return RecordAfter(api, EventKind::kAlloc, Memory::kArray, real, [&](Event& event, bool succeeded) {
    const uint64_t element = desc == nullptr ? 1 : ElementBytes(*desc);
    event.size = MipmapBytes({extent.width, extent.height, extent.depth, element}, levels);
    event.device = CurrentDevice();
    event.handle = OwnContext();
    if (!has_memory) {
      event.requested_size = event.size;
      event.size = 0;
    }
    if (succeeded && out != nullptr) event.address = AddressOf(*out);
  });
}

// A call that ends something named by an address, or by a handle of its own.
template <typename Real>
cudaError_t End(ApiId api, EventKind kind, Memory memory, Real real, uint64_t address) {
  if (address == 0) return real();
  return RecordBefore(
      api, kind, memory, [&](Event& event) { event.address = address; }, real);
}

}  // namespace
}  // namespace gpumemshim::hooks

using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

cudaError_t cudaMallocHost(void** out, size_t bytes) {
  const auto real = GPUMEM_REAL(cudaMallocHost);
  if (real == nullptr) return kMissingRuntime;
  return HostAlloc(
      ApiId::kcudaMallocHost, [&] { return real(out, bytes); }, out, bytes);
}

cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned int flags) {
  const auto real = GPUMEM_REAL(cudaHostAlloc);
  if (real == nullptr) return kMissingRuntime;
  return HostAlloc(
      ApiId::kcudaHostAlloc, [&] { return real(out, bytes, flags); }, out, bytes);
}

cudaError_t cudaFreeHost(void* address) {
  const auto real = GPUMEM_REAL(cudaFreeHost);
  if (real == nullptr) return kMissingRuntime;
  return End(
      ApiId::kcudaFreeHost, EventKind::kFree, Memory::kHostPinned, [&] { return real(address); }, AddressOf(address));
}

cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned int flags) {
  const auto real = GPUMEM_REAL(cudaHostRegister);
  if (real == nullptr) return kMissingRuntime;
  return RecordAfter(
      ApiId::kcudaHostRegister, EventKind::kHostRegister, Memory::kHostPinned,
      [&] { return real(address, bytes, flags); },
      [&](Event& event, bool) {
        event.address = AddressOf(address);
        event.size = bytes;
      });
}

cudaError_t cudaHostUnregister(void* address) {
  const auto real = GPUMEM_REAL(cudaHostUnregister);
  if (real == nullptr) return kMissingRuntime;
  return End(
      ApiId::kcudaHostUnregister, EventKind::kHostUnregister, Memory::kHostPinned, [&] { return real(address); },
      AddressOf(address));
}

cudaError_t cudaMallocArray(cudaArray_t* out, const cudaChannelFormatDesc* desc, size_t width, size_t height,
                            unsigned int flags) {
  const auto real = GPUMEM_REAL(cudaMallocArray);
  if (real == nullptr) return kMissingRuntime;
  return ArrayAlloc(
      ApiId::kcudaMallocArray, [&] { return real(out, desc, width, height, flags); }, out, desc, {width, height, 0}, 1,
      flags);
}

cudaError_t cudaMalloc3DArray(cudaArray_t* out, const cudaChannelFormatDesc* desc, cudaExtent extent,
                              unsigned int flags) {
  const auto real = GPUMEM_REAL(cudaMalloc3DArray);
  if (real == nullptr) return kMissingRuntime;
  return ArrayAlloc(
      ApiId::kcudaMalloc3DArray, [&] { return real(out, desc, extent, flags); }, out, desc, extent, 1, flags);
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* out, const cudaChannelFormatDesc* desc, cudaExtent extent,
                                     unsigned int levels, unsigned int flags) {
  const auto real = GPUMEM_REAL(cudaMallocMipmappedArray);
  if (real == nullptr) return kMissingRuntime;
  return ArrayAlloc(
      ApiId::kcudaMallocMipmappedArray, [&] { return real(out, desc, extent, levels, flags); }, out, desc, extent,
      levels, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) {
  const auto real = GPUMEM_REAL(cudaFreeArray);
  if (real == nullptr) return kMissingRuntime;
  return End(
      ApiId::kcudaFreeArray, EventKind::kFree, Memory::kArray, [&] { return real(array); }, AddressOf(array));
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  const auto real = GPUMEM_REAL(cudaFreeMipmappedArray);
  if (real == nullptr) return kMissingRuntime;
  return End(
      ApiId::kcudaFreeMipmappedArray, EventKind::kFree, Memory::kArray, [&] { return real(array); }, AddressOf(array));
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* out, const cudaMemPoolProps* props) {
  const auto real = GPUMEM_REAL(cudaMemPoolCreate);
  if (real == nullptr) return kMissingRuntime;
  return RecordAfter(
      ApiId::kcudaMemPoolCreate, EventKind::kPoolCreate, Memory::kStreamOrdered, [&] { return real(out, props); },
      [&](Event& event, bool) {
        LocatePool(event, props);
        if (out != nullptr) event.handle = AddressOf(*out);
      });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  const auto real = GPUMEM_REAL(cudaMemPoolDestroy);
  if (real == nullptr) return kMissingRuntime;
  return RecordBefore(
      ApiId::kcudaMemPoolDestroy, EventKind::kPoolDestroy, Memory::kStreamOrdered,
      [&](Event& event) { event.handle = AddressOf(pool); }, [&] { return real(pool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes_to_keep) {
  const auto real = GPUMEM_REAL(cudaMemPoolTrimTo);
  if (real == nullptr) return kMissingRuntime;
  return RecordAfter(
      ApiId::kcudaMemPoolTrimTo, EventKind::kPoolTrim, Memory::kStreamOrdered,
      [&] { return real(pool, bytes_to_keep); },
      [&](Event& event, bool) {
        event.handle = AddressOf(pool);
        event.size = bytes_to_keep;
        event.requested_size = PoolReserved(reinterpret_cast<CUmemoryPool>(pool));
      });
}

cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t handle, unsigned int flags) {
  const auto real = GPUMEM_REAL(cudaIpcOpenMemHandle);
  if (real == nullptr) return kMissingRuntime;
  return RecordAfter(
      ApiId::kcudaIpcOpenMemHandle, EventKind::kImport, Memory::kDevice, [&] { return real(out, handle, flags); },
      [&](Event& event, bool) {
        event.device = CurrentDevice();
        if (out == nullptr) return;
        event.address = AddressOf(*out);
        event.size = SizeOfAddress(event.address);
      });
}

cudaError_t cudaIpcCloseMemHandle(void* address) {
  const auto real = GPUMEM_REAL(cudaIpcCloseMemHandle);
  if (real == nullptr) return kMissingRuntime;
  return End(
      ApiId::kcudaIpcCloseMemHandle, EventKind::kImportClose, Memory::kDevice, [&] { return real(address); },
      AddressOf(address));
}

}  // extern "C"

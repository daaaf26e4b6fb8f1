// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The runtime's linear memory on the device: plain, pitched, managed and stream-ordered.

#include "shim/hooks/capture.h"
#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/own_contexts.h"
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

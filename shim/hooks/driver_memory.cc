// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The driver's linear memory: device, managed, pinned host.

#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

template <typename Real, typename Pointer>
CUresult Alloc(ApiId api, Memory memory, Real real, Pointer* out, uint64_t bytes) {
  return RecordAfter(api, EventKind::kAlloc, memory, real, [&](Event& event, bool succeeded) {
    event.size = bytes;
    event.handle = OwnContext();
    const bool host_ran_out = !succeeded && memory == Memory::kHostPinned;
    event.device = host_ran_out ? kNoDevice : CurrentDevice();
    if (succeeded && out != nullptr) event.address = AddressOf(*out);
  });
}

template <typename Real, typename Pointer, typename Size>
CUresult AllocPitch(ApiId api, Real real, Pointer* out, const Size* pitch, uint64_t width, uint64_t height) {
  return RecordAfter(api, EventKind::kAlloc, Memory::kDevice, real, [&](Event& event, bool succeeded) {
    event.size = width * height;
    event.handle = OwnContext();
    event.device = CurrentDevice();
    if (!succeeded || out == nullptr) return;
    event.address = AddressOf(*out);
    event.requested_size = event.size;
    if (pitch != nullptr) event.size = *pitch * height;
  });
}

template <typename Real>
CUresult End(ApiId api, EventKind kind, Memory memory, Real real, uint64_t address) {
  if (address == 0) return real();
  return RecordBefore(
      api, kind, memory, [&](Event& event) { event.address = address; }, real);
}

template <typename Real>
CUresult HostRegister(ApiId api, Real real, const void* address, uint64_t bytes) {
  return RecordAfter(api, EventKind::kHostRegister, Memory::kHostPinned, real, [&](Event& event, bool) {
    event.handle = OwnContext();
    event.device = CurrentDevice();
    event.address = AddressOf(address);
    event.size = bytes;
  });
}

}  // namespace

// Memory of other owners, never counted as ours: of other processes (IPC) and of graphics libraries and the like
// (external memory). An external object holds the bytes; a buffer mapped from it is a mapping of the object, which ends
// with an ordinary cuMemFree.

namespace {

template <typename Real>
CUresult IpcOpen(ApiId api, Real real, const CUdeviceptr* out) {
  return RecordAfter(api, EventKind::kImport, Memory::kDevice, real, [&](Event& event, bool) {
    event.device = CurrentDevice();
    if (out == nullptr) return;
    event.address = *out;
    event.size = SizeOfAddress(*out);
  });
}

}  // namespace

}  // namespace gpumemshim::hooks

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuMemAlloc(CUdeviceptr_v1* out, unsigned int bytes) {
  const auto real = GPUMEM_REAL(cuMemAlloc);
  if (real == nullptr) return kMissingDriver;
  return Alloc(
      ApiId::kcuMemAlloc, Memory::kDevice, [&] { return real(out, bytes); }, out, bytes);
}

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  const auto real = GPUMEM_REAL(cuMemAlloc_v2);
  if (real == nullptr) return kMissingDriver;
  return Alloc(
      ApiId::kcuMemAlloc_v2, Memory::kDevice, [&] { return real(out, bytes); }, out, bytes);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1* out, unsigned int* pitch, unsigned int width, unsigned int height,
                         unsigned int element) {
  const auto real = GPUMEM_REAL(cuMemAllocPitch);
  if (real == nullptr) return kMissingDriver;
  return AllocPitch(
      ApiId::kcuMemAllocPitch, [&] { return real(out, pitch, width, height, element); }, out, pitch, width, height);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned int element) {
  const auto real = GPUMEM_REAL(cuMemAllocPitch_v2);
  if (real == nullptr) return kMissingDriver;
  return AllocPitch(
      ApiId::kcuMemAllocPitch_v2, [&] { return real(out, pitch, width, height, element); }, out, pitch, width, height);
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  const auto real = GPUMEM_REAL(cuMemAllocManaged);
  if (real == nullptr) return kMissingDriver;
  return Alloc(
      ApiId::kcuMemAllocManaged, Memory::kManaged, [&] { return real(out, bytes, flags); }, out, bytes);
}

CUresult cuMemFree(CUdeviceptr_v1 address) {
  const auto real = GPUMEM_REAL(cuMemFree);
  if (real == nullptr) return kMissingDriver;
  return End(
      ApiId::kcuMemFree, EventKind::kFree, Memory::kDevice, [&] { return real(address); }, address);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  const auto real = GPUMEM_REAL(cuMemFree_v2);
  if (real == nullptr) return kMissingDriver;
  return End(
      ApiId::kcuMemFree_v2, EventKind::kFree, Memory::kDevice, [&] { return real(address); }, address);
}

CUresult cuMemAllocHost(void** out, unsigned int bytes) {
  const auto real = GPUMEM_REAL(cuMemAllocHost);
  if (real == nullptr) return kMissingDriver;
  return Alloc(
      ApiId::kcuMemAllocHost, Memory::kHostPinned, [&] { return real(out, bytes); }, out, bytes);
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  const auto real = GPUMEM_REAL(cuMemAllocHost_v2);
  if (real == nullptr) return kMissingDriver;
  return Alloc(
      ApiId::kcuMemAllocHost_v2, Memory::kHostPinned, [&] { return real(out, bytes); }, out, bytes);
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  const auto real = GPUMEM_REAL(cuMemHostAlloc);
  if (real == nullptr) return kMissingDriver;
  return Alloc(
      ApiId::kcuMemHostAlloc, Memory::kHostPinned, [&] { return real(out, bytes, flags); }, out, bytes);
}

CUresult cuMemFreeHost(void* address) {
  const auto real = GPUMEM_REAL(cuMemFreeHost);
  if (real == nullptr) return kMissingDriver;
  return End(
      ApiId::kcuMemFreeHost, EventKind::kFree, Memory::kHostPinned, [&] { return real(address); }, AddressOf(address));
}

CUresult cuMemHostRegister(void* address, size_t bytes, unsigned int flags) {
  const auto real = GPUMEM_REAL(cuMemHostRegister);
  if (real == nullptr) return kMissingDriver;
  return HostRegister(
      ApiId::kcuMemHostRegister, [&] { return real(address, bytes, flags); }, address, bytes);
}

CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned int flags) {
  const auto real = GPUMEM_REAL(cuMemHostRegister_v2);
  if (real == nullptr) return kMissingDriver;
  return HostRegister(
      ApiId::kcuMemHostRegister_v2, [&] { return real(address, bytes, flags); }, address, bytes);
}

CUresult cuMemHostUnregister(void* address) {
  const auto real = GPUMEM_REAL(cuMemHostUnregister);
  if (real == nullptr) return kMissingDriver;
  return End(
      ApiId::kcuMemHostUnregister, EventKind::kHostUnregister, Memory::kHostPinned, [&] { return real(address); },
      AddressOf(address));
}

}  // extern "C"

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  const auto real = GPUMEM_REAL(cuIpcOpenMemHandle);
  if (real == nullptr) return kMissingDriver;
  return IpcOpen(
      ApiId::kcuIpcOpenMemHandle, [&] { return real(out, handle, flags); }, out);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  const auto real = GPUMEM_REAL(cuIpcOpenMemHandle_v2);
  if (real == nullptr) return kMissingDriver;
  return IpcOpen(
      ApiId::kcuIpcOpenMemHandle_v2, [&] { return real(out, handle, flags); }, out);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  const auto real = GPUMEM_REAL(cuIpcCloseMemHandle);
  if (real == nullptr) return kMissingDriver;
  return RecordBefore(
      ApiId::kcuIpcCloseMemHandle, EventKind::kImportClose, Memory::kDevice,
      [&](Event& event) { event.address = address; }, [&] { return real(address); });
}

CUresult cuImportExternalMemory(CUexternalMemory* out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* desc) {
  const auto real = GPUMEM_REAL(cuImportExternalMemory);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuImportExternalMemory, EventKind::kImport, Memory::kExternal, [&] { return real(out, desc); },
      [&](Event& event, bool) {
        event.device = CurrentDevice();
        if (out != nullptr) event.handle = AddressOf(*out);
        if (desc != nullptr) event.size = desc->size;
      });
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* out, CUexternalMemory memory,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* desc) {
  const auto real = GPUMEM_REAL(cuExternalMemoryGetMappedBuffer);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuExternalMemoryGetMappedBuffer, EventKind::kMap, Memory::kExternal,
      [&] { return real(out, memory, desc); },
      [&](Event& event, bool) {
        event.device = CurrentDevice();
        event.handle = AddressOf(memory);
        if (out != nullptr) event.address = *out;
        if (desc != nullptr) event.size = desc->size;
      });
}

// The array's bytes are the object's, so it is an import of nothing more.
CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray* out, CUexternalMemory memory,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* desc) {
  const auto real = GPUMEM_REAL(cuExternalMemoryGetMappedMipmappedArray);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuExternalMemoryGetMappedMipmappedArray, EventKind::kImport, Memory::kArray,
      [&] { return real(out, memory, desc); },
      [&](Event& event, bool) {
        event.device = CurrentDevice();
        event.handle = AddressOf(memory);
        if (out != nullptr) event.address = AddressOf(*out);
      });
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
  const auto real = GPUMEM_REAL(cuDestroyExternalMemory);
  if (real == nullptr) return kMissingDriver;
  return RecordBefore(
      ApiId::kcuDestroyExternalMemory, EventKind::kImportClose, Memory::kExternal,
      [&](Event& event) { event.handle = AddressOf(memory); }, [&] { return real(memory); });
}

}  // extern "C"

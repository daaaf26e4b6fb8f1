// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory of other owners, never counted as ours: of other processes (IPC) and of graphics libraries and the like
// (external memory). An external object holds the bytes; a buffer mapped from it is a mapping of the object, which ends
// with an ordinary cuMemFree.

#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
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

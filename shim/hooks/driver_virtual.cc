// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The driver's virtual memory management. Physical memory is known by its handle, address space by its address; a
// mapping joins the two. Physical memory lives until it is released and unmapped, which the analyzer works out. The
// device is the one that the properties name: there need be no current context on this thread.

#include "shim/hooks/cuda_api.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

void Locate(Event& event, const CUmemAllocationProp* prop) {
  if (prop == nullptr) return;
  const bool on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  event.device = on_device ? static_cast<int16_t>(prop->location.id) : kNoDevice;
  event.memory = on_device ? Memory::kPhysical : Memory::kPhysicalHost;
}

}  // namespace
}  // namespace gpumemshim::hooks

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  const auto real = GPUMEM_REAL(cuMemAddressReserve);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMemAddressReserve, EventKind::kAddressReserve, Memory::kVirtual,
      [&] { return real(out, bytes, alignment, hint, flags); },
      [&](Event& event, bool succeeded) {
        event.size = bytes;
        if (succeeded && out != nullptr) event.address = *out;
      });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  const auto real = GPUMEM_REAL(cuMemAddressFree);
  if (real == nullptr) return kMissingDriver;
  return RecordBefore(
      ApiId::kcuMemAddressFree, EventKind::kAddressFree, Memory::kVirtual,
      [&](Event& event) {
        event.address = address;
        event.size = bytes;
      },
      [&] { return real(address, bytes); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
  const auto real = GPUMEM_REAL(cuMemCreate);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMemCreate, EventKind::kPhysicalCreate, Memory::kPhysical, [&] { return real(out, bytes, prop, flags); },
      [&](Event& event, bool succeeded) {
        event.size = bytes;
        Locate(event, prop);
        if (succeeded && out != nullptr) event.handle = *out;
      });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const auto real = GPUMEM_REAL(cuMemRelease);
  if (real == nullptr) return kMissingDriver;
  return RecordBefore(
      ApiId::kcuMemRelease, EventKind::kPhysicalRelease, Memory::kPhysical,
      [&](Event& event) { event.handle = handle; }, [&] { return real(handle); });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  const auto real = GPUMEM_REAL(cuMemRetainAllocationHandle);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMemRetainAllocationHandle, EventKind::kPhysicalRetain, Memory::kPhysical,
      [&] { return real(out, address); },
      [&](Event& event, bool) {
        event.address = AddressOf(address);
        if (out != nullptr) event.handle = *out;
      });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  const auto real = GPUMEM_REAL(cuMemMap);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMemMap, EventKind::kMap, Memory::kVirtual, [&] { return real(address, bytes, offset, handle, flags); },
      [&](Event& event, bool) {
        event.address = address;
        event.size = bytes;
        event.handle = handle;
      });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  const auto real = GPUMEM_REAL(cuMemUnmap);
  if (real == nullptr) return kMissingDriver;
  return RecordBefore(
      ApiId::kcuMemUnmap, EventKind::kUnmap, Memory::kVirtual,
      [&](Event& event) {
        event.address = address;
        event.size = bytes;
      },
      [&] { return real(address, bytes); });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* os_handle,
                                        CUmemAllocationHandleType type) {
  const auto real = GPUMEM_REAL(cuMemImportFromShareableHandle);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMemImportFromShareableHandle, EventKind::kImport, Memory::kPhysical,
      [&] { return real(out, os_handle, type); },
      [&](Event& event, bool) {
        if (out != nullptr) event.handle = *out;
      });
}

}  // extern "C"

// Multicast objects: handles without memory of their own that several devices' physical memory is bound to, and that
// are mapped like physical memory. A bound handle's memory lives on until it is unbound, whoever released it.

using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* out, const CUmulticastObjectProp* prop) {
  const auto real = GPUMEM_REAL(cuMulticastCreate);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMulticastCreate, EventKind::kPhysicalCreate, Memory::kMulticast, [&] { return real(out, prop); },
      [&](Event& event, bool succeeded) {
        if (prop != nullptr) event.size = prop->size;
        if (succeeded && out != nullptr) event.handle = *out;
      });
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle object, size_t offset, CUmemGenericAllocationHandle memory,
                            size_t memory_offset, size_t bytes, unsigned long long flags) {
  const auto real = GPUMEM_REAL(cuMulticastBindMem);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMulticastBindMem, EventKind::kMulticastBind, Memory::kPhysical,
      [&] { return real(object, offset, memory, memory_offset, bytes, flags); },
      [&](Event& event, bool) {
        event.handle = object;
        event.address = memory;
        event.size = bytes;
      });
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle object, size_t offset, CUdeviceptr address, size_t bytes,
                             unsigned long long flags) {
  const auto real = GPUMEM_REAL(cuMulticastBindAddr);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuMulticastBindAddr, EventKind::kMulticastBind, Memory::kVirtual,
      [&] { return real(object, offset, address, bytes, flags); },
      [&](Event& event, bool) {
        event.handle = object;
        event.address = address;
        event.size = bytes;
      });
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle object, CUdevice device, size_t offset, size_t bytes) {
  const auto real = GPUMEM_REAL(cuMulticastUnbind);
  if (real == nullptr) return kMissingDriver;
  return RecordBefore(
      ApiId::kcuMulticastUnbind, EventKind::kMulticastUnbind, Memory::kPhysical,
      [&](Event& event) {
        event.handle = object;
        event.device = static_cast<int16_t>(device);
        event.address = offset;
        event.size = bytes;
      },
      [&] { return real(object, device, offset, bytes); });
}

}  // extern "C"

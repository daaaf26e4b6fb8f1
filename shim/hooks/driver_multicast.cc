// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Multicast objects: handles without memory of their own that several devices' physical memory is bound to, and that
// are mapped like physical memory. A bound handle's memory lives on until it is unbound, whoever released it.

#include "shim/hooks/cuda_api.h"
#include "shim/hooks/record.h"

using namespace gpumemshim;         // NOLINT: definitions of C functions
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

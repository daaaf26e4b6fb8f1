// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where a pool's memory lies, as its properties say: on a device, on the host, or wherever it is used (managed).
//
// Thread-safety: pure. Failure: properties of NULL change nothing.
//
//   LocatePool(event, props);   // event.device, event.memory

#ifndef GPUMEM_SHIM_HOOKS_POOL_LOCATION_H_
#define GPUMEM_SHIM_HOOKS_POOL_LOCATION_H_

#include "shim/base/event.h"
#include "shim/hooks/cuda_api.h"

namespace gpumemshim::hooks {

// For CUmemPoolProps, and for cudaMemPoolProps, which has the same members and numbers.
template <typename Props>
void LocatePool(Event& event, const Props* props) {
  if (props == nullptr) return;
  const int type = static_cast<int>(props->location.type);
  event.device = type == CU_MEM_LOCATION_TYPE_DEVICE ? static_cast<int16_t>(props->location.id) : kNoDevice;
  if (static_cast<int>(props->allocType) == CU_MEM_ALLOCATION_TYPE_MANAGED) {
    event.memory = Memory::kManaged;
  } else if (type != CU_MEM_LOCATION_TYPE_DEVICE) {
    event.memory = Memory::kHostPinned;
  }
}

}  // namespace gpumemshim::hooks

#endif  // GPUMEM_SHIM_HOOKS_POOL_LOCATION_H_

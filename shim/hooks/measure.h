// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the driver says about memory that no call names: a device's free bytes, a graph's reserved ones, a pool's. Asked
// only where the question neither waits for the device nor disturbs a stream capture.
//
// Thread-safety: any thread. Failure: 0, which means "not measured".
//
//   const FreeMemory before = FreeMemory::Now();
//   real(...);
//   event.size = before.FellBy();

#ifndef GPUMEM_SHIM_HOOKS_MEASURE_H_
#define GPUMEM_SHIM_HOOKS_MEASURE_H_

#include <cstdint>

#include "shim/base/event.h"
#include "shim/hooks/cuda_api.h"

namespace gpumemshim::hooks {

// Free bytes of the current context's device. Other processes allocate too, so a difference is an estimate.
class FreeMemory {
 public:
  // Nothing where the thread has no context or a capture goes on anywhere in the process.
  static FreeMemory Now();

  // By how much it fell since; 0 where it rose, or was not measured both times on one device.
  uint64_t FellBy() const;

 private:
  uint64_t bytes_ = 0;
  int16_t device_ = kNoDevice;
};

// What the device's graphs have reserved; false where the driver does not say.
bool GraphMemoryReserved(int16_t device, uint64_t* bytes);

// What a pool has reserved; 0 where the driver does not say.
uint64_t PoolReserved(CUmemoryPool pool);

}  // namespace gpumemshim::hooks

#endif  // GPUMEM_SHIM_HOOKS_MEASURE_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Host memory that CUDA knows: allocated by it (pinned) or registered with it.
//
// Thread-safety: every public method locks the machine. Ownership: borrows the machine; owns what it allocated.
// Failure mode: CUresult; an overlapping registration is 712, an unknown one 713, as in CUDA.
#ifndef SIMCUDA_DEVICE_HOST_MEMORY_H_
#define SIMCUDA_DEVICE_HOST_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <optional>

#include "simcuda/device/linear_memory.h"
#include "simcuda/device/machine.h"

namespace simcuda {

struct HostRange {
  uint64_t address = 0;
  uint64_t size = 0;
  bool registered = false;
  unsigned flags = 0;
  int device = 0;  // current when it was made
  const void* context = nullptr;
  uint64_t id = 0;
};

class HostMemory {
 public:
  explicit HostMemory(Machine* machine) : machine_(machine) {}

  CUresult Allocate(const Caller& caller, uint64_t size, unsigned flags, void** address);
  CUresult Free(const Caller& caller, const void* address);
  CUresult Register(const Caller& caller, const void* address, uint64_t size, unsigned flags);
  CUresult Unregister(const Caller& caller, const void* address);

  // The range that contains the address.
  std::optional<HostRange> Find(uint64_t address);

 private:
  Machine* const machine_;
  std::map<uint64_t, HostRange> ranges_;
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_HOST_MEMORY_H_

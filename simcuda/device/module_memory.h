// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What loaded code and streams take of a device. Code: SIMCUDA_MODULE_KB a module, in granules, a guess, because images
// are not read. A module is loaded into its context at once, a library into each context that first asks for one of its
// kernels. Streams: what their number takes in whole granules, as measured.
//
// Thread-safety: every public method locks the machine. Ownership: borrows the machine.
// Failure mode: CUDA_ERROR_OUT_OF_MEMORY, nothing changed.
#ifndef SIMCUDA_DEVICE_MODULE_MEMORY_H_
#define SIMCUDA_DEVICE_MODULE_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <utility>

#include "simcuda/device/linear_memory.h"
#include "simcuda/device/machine.h"

namespace simcuda {

class ModuleMemory {
 public:
  explicit ModuleMemory(Machine* machine) : machine_(machine) {}

  // Once a module and context; later calls change nothing.
  CUresult Load(const Caller& caller, const void* module, uint64_t bytes);

  // One stream more in the context. Those that are gone leave what they took to the next ones.
  void AddStream(const Caller& caller);

  // From every context.
  void Unload(const Caller& caller, const void* module);
  void DropContext(const Caller& caller);

 private:
  using Place = std::pair<const void*, const void*>;  // module, context
  struct Charge {
    int device = 0;
    uint64_t bytes = 0;
  };
  struct StreamsOfContext {
    int device = 0;
    uint64_t count = 0, bytes = 0;
  };
  std::map<Place, Charge>::iterator Remove(const Caller& caller, std::map<Place, Charge>::iterator loaded);

  Machine* const machine_;
  std::map<Place, Charge> loaded_;
  std::map<const void*, StreamsOfContext> streams_;  // by context
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_MODULE_MEMORY_H_

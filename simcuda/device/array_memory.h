// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Arrays and mipmapped arrays: memory behind opaque handles. Only their size and shape are simulated; they hold no
// contents. Charged in granules, with every array on granules of its own; but a sparse array (and one of deferred
// mapping) has the memory that cuMemMapArrayAsync gives it, and a view of external memory has none of ours.
//
// Thread-safety: every public method locks the machine. Ownership: borrows the machine.
#ifndef SIMCUDA_DEVICE_ARRAY_MEMORY_H_
#define SIMCUDA_DEVICE_ARRAY_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "simcuda/device/linear_memory.h"
#include "simcuda/device/machine.h"

namespace simcuda {

// Bytes of an array with this shape; 0 for an unknown format.
uint64_t ArrayBytes(const CUDA_ARRAY3D_DESCRIPTOR& shape);

class ArrayMemory {
 public:
  explicit ArrayMemory(Machine* machine) : machine_(machine) {}

  CUresult Create(const Caller& caller, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels, uint64_t* handle);
  // A mipmapped array over external memory.
  CUresult CreateView(const Caller& caller, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels, uint64_t external,
                      uint64_t* handle);
  CUresult Destroy(const Caller& caller, uint64_t handle);

  // How a sparse array is cut into tiles; false for any other.
  bool DescribeSparse(uint64_t handle, CUDA_ARRAY_SPARSE_PROPERTIES* properties);
  CUresult Describe(uint64_t handle, CUDA_ARRAY3D_DESCRIPTOR* shape, uint64_t* bytes);

  // The handle of one level of a mipmapped array; it lives as long as that.
  CUresult Level(uint64_t handle, unsigned level, uint64_t* level_handle);

  void DropContext(const Caller& caller);

 private:
  struct Array {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    uint64_t bytes = 0;
    int device = -1;
    const void* context = nullptr;
    std::vector<uint64_t> levels{};  // handles of a mipmapped array's levels
    bool is_level = false;
    bool sparse = false, view = false;  // its memory is not its own
  };
  void AddLevels(Array* array, unsigned count);
  void Remove(const Caller& caller, std::unordered_map<uint64_t, Array>::iterator array);

  Machine* const machine_;
  std::unordered_map<uint64_t, Array> arrays_;
};

}  // namespace simcuda

#endif  // SIMCUDA_DEVICE_ARRAY_MEMORY_H_

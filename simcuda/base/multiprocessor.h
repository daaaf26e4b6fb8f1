// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a multiprocessor has, by compute capability: NVIDIA's CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability". PyTorch sizes buffers of reductions by it, kernels choose their shape by it.
//
// Thread-safety: pure. Failure mode: a capability that is not in the table has what the highest one below it has.
//
//   MultiprocessorOf(89).max_threads;  // 1536
#ifndef SIMCUDA_BASE_MULTIPROCESSOR_H_
#define SIMCUDA_BASE_MULTIPROCESSOR_H_

namespace simcuda {

struct Multiprocessor {
  int capability = 0;  // major * 10 + minor
  int max_threads = 0;
  int max_blocks = 0;
  int shared_bytes = 0;           // shared memory
  int block_shared_bytes = 0;     // of it, what one block may opt in to
  int reserved_shared_bytes = 0;  // what the system keeps of each block's
  int registers = 65536;
};

const Multiprocessor& MultiprocessorOf(int capability);

}  // namespace simcuda

#endif  // SIMCUDA_BASE_MULTIPROCESSOR_H_

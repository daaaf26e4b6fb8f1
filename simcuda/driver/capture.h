// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Stream capture and what it captures into. A graph remembers the types of its nodes and nothing of their contents:
// a launch of it counts kernels and moves no memory.
//
// Thread-safety: the structures are guarded by StreamMutex(); CheckUnsafeCall() takes it itself.
#ifndef SIMCUDA_DRIVER_CAPTURE_H_
#define SIMCUDA_DRIVER_CAPTURE_H_

#include <cstdint>
#include <deque>
#include <thread>

#include "simcuda/driver/driver.h"

namespace simcuda {

struct Graph {
  struct Node {
    CUgraphNodeType type;
  };
  std::deque<Node> nodes;  // addresses are stable: they are the node handles
  uint64_t KernelCount() const;
};

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  std::thread::id thread;
  Graph* graph = nullptr;
  const void* origin = nullptr;  // the Stream on which it began
};

// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where a potentially unsafe call (cuMemAlloc, ...) is forbidden by a capture in
// progress; that capture is then invalid, as in CUDA.
CUresult CheckUnsafeCall();

}  // namespace simcuda

#endif  // SIMCUDA_DRIVER_CAPTURE_H_

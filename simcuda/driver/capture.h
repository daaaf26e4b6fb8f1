// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Stream capture and what it captures into. A graph remembers the types of its nodes, what its memory nodes allocate
// and free, and nothing else: a launch of it counts kernels and carries its memory nodes out in the order in which they
// were added (a node can only depend on earlier ones).
//
// Thread-safety: the structures are guarded by StreamMutex(); CheckUnsafeCall() takes it itself.
#ifndef SIMCUDA_DRIVER_CAPTURE_H_
#define SIMCUDA_DRIVER_CAPTURE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "simcuda/driver/driver.h"

namespace simcuda {

struct Graph {
  struct Node {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    uint64_t address = 0;                                      // of a memory node
    std::shared_ptr<CUDA_MEM_ALLOC_NODE_PARAMS> parameters{};  // of an allocation
  };
  std::deque<Node> nodes;  // addresses are stable: they are the node handles
  uint64_t region = 0;     // see LinearMemory; 0: no memory nodes

  uint64_t KernelCount() const;
  std::vector<GraphStep> Steps() const;
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

// cuMemAllocAsync and cuMemFreeAsync on a capturing stream: memory nodes of its graph.
CUresult CaptureAllocation(const Caller& caller, CUstream stream, size_t size, const CUmemPoolProps& properties,
                           CUdeviceptr* pointer);
CUresult CaptureFree(const Caller& caller, CUstream stream, CUdeviceptr pointer);

}  // namespace simcuda

#endif  // SIMCUDA_DRIVER_CAPTURE_H_

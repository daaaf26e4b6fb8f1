// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Nodes of graphs, the memory nodes above all. The two APIs lay their parameters out alike.
#include <cstring>

#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

static_assert(sizeof(cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
static_assert(offsetof(cudaMemAllocNodeParams, dptr) == offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, dptr));

extern "C" {

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                     size_t count, cudaMemAllocNodeParams* parameters) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphAddMemAllocNode(node, graph, dependencies, count,
                                               reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(parameters)));
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* parameters) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphMemAllocNodeGetParams(node, reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(parameters)));
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                    size_t count, void* pointer) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphAddMemFreeNode(node, graph, dependencies, count, Pointer(pointer)));
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(pointer)));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                  size_t count) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphAddEmptyNode(node, graph, dependencies, count));
}

#if CUDART_VERSION >= 13000
static_assert(sizeof(cudaGraphNodeParams) == sizeof(CUgraphNodeParams));

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                             const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* parameters) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphAddNode(node, graph, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                       count, reinterpret_cast<CUgraphNodeParams*>(parameters)));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     const cudaGraphEdgeData* edges, size_t count) {
  SIMCUDA_NEED_DRIVER();
  return Check(
      Driver().cuGraphAddDependencies(graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edges), count));
}
#elif CUDART_VERSION >= 12020
cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                             size_t count, cudaGraphNodeParams* parameters) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphAddNode(node, graph, dependencies, nullptr, count,
                                       reinterpret_cast<CUgraphNodeParams*>(parameters)));
}

cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                const cudaGraphEdgeData* edges, size_t count, cudaGraphNodeParams* parameters) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphAddNode(node, graph, dependencies, reinterpret_cast<const CUgraphEdgeData*>(edges),
                                       count, reinterpret_cast<CUgraphNodeParams*>(parameters)));
}
#endif

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value));
}

}  // extern "C"

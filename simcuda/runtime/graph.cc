// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Graphs.
#include <cstring>

#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphCreate(graph, flags));
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphClone(clone, graph));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphDestroy(graph));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphGetNodes(graph, nodes, count));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(type)));
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* edges,
                                         size_t* count) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphNodeGetDependencies(node, nodes, reinterpret_cast<CUgraphEdgeData*>(edges), count));
}
#else
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, size_t* count) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphNodeGetDependencies(node, nodes, nullptr, count));
}
#endif

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuGraphInstantiateWithFlags(exec, graph, flags));
}

#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}
#else
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphNode_t*, char*, size_t) {
  return cudaGraphInstantiateWithFlags(exec, graph, 0);
}
#endif

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuGraphUpload(exec, stream));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuGraphLaunch(exec, stream));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphExecDestroy(exec));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned flags) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuGraphDebugDotPrint(graph, path, flags));
}

cudaError_t cudaDeviceGraphMemTrim(int device) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceGraphMemTrim(device));
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void* value) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute), value));
}

}  // extern "C"

// Nodes of graphs, the memory nodes above all. The two APIs lay their parameters out alike.

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

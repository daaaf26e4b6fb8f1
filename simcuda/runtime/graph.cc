// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Graphs.
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

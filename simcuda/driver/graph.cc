// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Graphs, as far as programs capture and launch them. Handles are checked; nodes know their type only.
#include <algorithm>
#include <unordered_map>

#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only below

namespace simcuda {

uint64_t Graph::KernelCount() const {
  return static_cast<uint64_t>(std::count_if(nodes.begin(), nodes.end(),
                                             [](const Node& node) { return node.type == CU_GRAPH_NODE_TYPE_KERNEL; }));
}

namespace {

struct GraphExec {
  uint64_t kernels = 0;
};

std::mutex& GraphMutex() {
  static auto* const mutex = new std::mutex();
  return *mutex;
}

std::unordered_map<const void*, std::unique_ptr<GraphExec>>& Execs() {
  static auto* const execs = new std::unordered_map<const void*, std::unique_ptr<GraphExec>>();
  return *execs;
}

CUresult Instantiate(CUgraphExec* handle, CUgraph graph) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<GraphExec> exec(new GraphExec{reinterpret_cast<Graph*>(graph)->KernelCount()});
  const std::lock_guard lock(GraphMutex());
  *handle = reinterpret_cast<CUgraphExec>(exec.get());
  Execs().emplace(exec.get(), std::move(exec));
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace simcuda

extern "C" {

CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  *graph = reinterpret_cast<CUgraph>(new Graph());
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* clone, CUgraph graph) {
  if (clone == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *clone = reinterpret_cast<CUgraph>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  delete reinterpret_cast<Graph*>(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::deque<Graph::Node>& known = reinterpret_cast<Graph*>(graph)->nodes;
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) {
      nodes[i] = i < known.size() ? reinterpret_cast<CUgraphNode>(&known[i]) : nullptr;
    }
  }
  if (nodes == nullptr || *count > known.size()) *count = known.size();
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = reinterpret_cast<const Graph::Node*>(node)->type;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode, CUgraphNode*, CUgraphEdgeData*, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = 0;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, nodes, nullptr, count);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  return Instantiate(exec, graph);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters != nullptr) parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return Instantiate(exec, graph);
}

CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*, size_t) {
  return Instantiate(exec, graph);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  const std::lock_guard lock(GraphMutex());
  const auto found = Execs().find(exec);
  if (found == Execs().end() || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  found->second->kernels = reinterpret_cast<Graph*>(graph)->KernelCount();
  if (info != nullptr) *info = {};
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec, CUstream) { return CheckContext(); }

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  bool captured = false;
  if (const CUresult result = Enqueue(stream, CU_GRAPH_NODE_TYPE_GRAPH, &captured); result != CUDA_SUCCESS)
    return result;
  uint64_t kernels = 0;
  {
    const std::lock_guard lock(GraphMutex());
    const auto found = Execs().find(exec);
    if (found == Execs().end()) return CUDA_ERROR_INVALID_VALUE;
    kernels = found->second->kernels;
  }
  if (!captured) WatchProgress(kernels);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const std::lock_guard lock(GraphMutex());
  return Execs().erase(exec) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned) {
  if (graph == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

// Memory nodes of graphs are not simulated: a device never has any memory in graphs.
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute, void* value) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  *static_cast<cuuint64_t*>(value) = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute, void*) { return CheckDevice(device); }
CUresult cuDeviceGraphMemTrim(CUdevice device) { return CheckDevice(device); }

}  // extern "C"

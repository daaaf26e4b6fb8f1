// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Graphs, as far as programs capture and launch them. Handles are checked; nodes are made in graph_nodes.cc.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only below

namespace simcuda {

uint64_t Graph::KernelCount() const {
  return static_cast<uint64_t>(std::count_if(nodes.begin(), nodes.end(),
                                             [](const Node& node) { return node.type == CU_GRAPH_NODE_TYPE_KERNEL; }));
}

std::vector<GraphStep> Graph::Steps() const {
  std::vector<GraphStep> steps;
  for (const Node& node : nodes) {
    if (node.address == 0) continue;
    steps.push_back({.address = node.address, .allocates = node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC});
  }
  return steps;
}

namespace {

struct GraphExec {
  uint64_t kernels = 0;
  uint64_t region = 0;
  std::vector<GraphStep> steps{};
  bool free_first = false;
};

std::mutex& GraphMutex() {
  static auto* const mutex = new std::mutex();
  return *mutex;
}

// Guarded by GraphMutex().
std::unordered_map<const void*, GraphExec>& Execs() {
  static auto* const execs = new std::unordered_map<const void*, GraphExec>();
  return *execs;
}

bool IsInstantiated(uint64_t region) {
  return std::any_of(Execs().begin(), Execs().end(), [=](const auto& exec) { return exec.second.region == region; });
}

CUresult Instantiate(CUgraphExec* handle, CUgraph graph_handle, uint64_t flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr || graph_handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  static uintptr_t last_handle = 0;  // never reused, so that a stale one is an error
  const Graph& graph = *reinterpret_cast<Graph*>(graph_handle);
  const std::lock_guard lock(GraphMutex());
  // A graph with memory nodes has one executable at a time.
  if (graph.region != 0 && IsInstantiated(graph.region)) return CUDA_ERROR_NOT_SUPPORTED;
  if (graph.region != 0) GetSimulation()->linear.KeepGraphRegion(graph.region);
  *handle = reinterpret_cast<CUgraphExec>(last_handle += 64);
  Execs()[*handle] = {.kernels = graph.KernelCount(),
                      .region = graph.region,
                      .steps = graph.Steps(),
                      .free_first = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0};
  return CUDA_SUCCESS;
}

bool FindGraph(CUgraphExec handle, GraphExec* exec) {
  const std::lock_guard lock(GraphMutex());
  const auto found = Execs().find(handle);
  if (found != Execs().end()) *exec = found->second;
  return found != Execs().end();
}

bool SameSteps(const std::vector<GraphStep>& a, const std::vector<GraphStep>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const GraphStep& one, const GraphStep& other) {
    return one.address == other.address && one.allocates == other.allocates;
  });
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
  if (reinterpret_cast<Graph*>(graph)->region != 0) return CUDA_ERROR_NOT_SUPPORTED;
  *clone = reinterpret_cast<CUgraph>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t region = reinterpret_cast<Graph*>(graph)->region;
  delete reinterpret_cast<Graph*>(graph);
  if (region != 0) GetSimulation()->linear.DropGraphRegion(region);
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

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return Instantiate(exec, graph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = Instantiate(exec, graph, parameters->flags);
  parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode*, char*, size_t) {
  return Instantiate(exec, graph, 0);
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  GraphExec exec;
  if (flags == nullptr || !FindGraph(handle, &exec)) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec.free_first ? CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH : 0;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  const std::lock_guard lock(GraphMutex());
  const auto found = Execs().find(exec);
  if (found == Execs().end() || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (info != nullptr) *info = {};
  if (!SameSteps(found->second.steps, reinterpret_cast<Graph*>(graph)->Steps())) {  // memory nodes cannot change
    if (info != nullptr) info->result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  found->second.kernels = reinterpret_cast<Graph*>(graph)->KernelCount();
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  Caller caller;
  GraphExec exec;
  if (const CUresult result = CurrentCaller("cuGraphUpload", &caller); result != CUDA_SUCCESS) return result;
  if (!FindGraph(handle, &exec)) return CUDA_ERROR_INVALID_VALUE;
  if (exec.steps.empty()) return CUDA_SUCCESS;
  caller.stream = reinterpret_cast<uint64_t>(stream);
  return GetSimulation()->linear.UploadGraph(caller, exec.steps, exec.free_first, reinterpret_cast<uint64_t>(handle));
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuGraphLaunch", &caller); result != CUDA_SUCCESS) return result;
  GraphExec exec;
  if (!FindGraph(handle, &exec)) return CUDA_ERROR_INVALID_VALUE;
  bool captured = false;
  if (const CUresult result = Enqueue(stream, CU_GRAPH_NODE_TYPE_GRAPH, &captured); result != CUDA_SUCCESS)
    return result;
  if (captured) return CUDA_SUCCESS;
  WatchProgress(exec.kernels);
  if (exec.steps.empty()) return CUDA_SUCCESS;
  caller.stream = reinterpret_cast<uint64_t>(stream);
  return GetSimulation()->linear.LaunchGraph(caller, exec.steps, exec.free_first, reinterpret_cast<uint64_t>(handle));
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  GraphExec exec;
  if (!FindGraph(handle, &exec)) return CUDA_ERROR_INVALID_VALUE;
  {
    const std::lock_guard lock(GraphMutex());
    Execs().erase(handle);
  }
  if (exec.region != 0) GetSimulation()->linear.DropGraphRegion(exec.region);
  return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned) {
  if (graph == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->linear.GetGraphAttribute(device, attribute, value);
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return GetSimulation()->linear.ResetGraphAttribute(device, attribute, value);
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
  if (const CUresult result = CheckDevice(device); result != CUDA_SUCCESS) return result;
  GetSimulation()->linear.TrimGraphMemory({.api = "cuDeviceGraphMemTrim", .device = device});
  return CUDA_SUCCESS;
}

}  // extern "C"

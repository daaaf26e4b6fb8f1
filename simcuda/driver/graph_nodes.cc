// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Nodes of graphs, added one by one or by capture. Memory nodes are real: an allocation node has its address at once
// and its memory at a launch. Of all others the type is kept.
#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only below

namespace simcuda {
namespace {

uint64_t RegionOf(Graph* graph) {
  if (graph->region == 0) graph->region = GetSimulation()->linear.NewGraphRegion();
  return graph->region;
}

CUresult Check(const void* node, const void* graph) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return node != nullptr && graph != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Add(CUgraphNode* handle, CUgraph graph_handle, const Graph::Node& node) {
  if (const CUresult result = Check(handle, graph_handle); result != CUDA_SUCCESS) return result;
  std::deque<Graph::Node>& nodes = reinterpret_cast<Graph*>(graph_handle)->nodes;
  nodes.push_back(node);
  *handle = reinterpret_cast<CUgraphNode>(&nodes.back());
  return CUDA_SUCCESS;
}

CUresult MakeAllocation(const Caller& caller, Graph* graph, CUDA_MEM_ALLOC_NODE_PARAMS* parameters, Graph::Node* node) {
  const CUmemPoolProps& properties = parameters->poolProps;
  const bool plain = properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                     properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.handleTypes == 0;
  if (!plain) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult result = CheckDevice(properties.location.id); result != CUDA_SUCCESS) return result;
  Caller owner = caller;
  owner.device = properties.location.id;
  uint64_t address = 0;
  const CUresult result =
      GetSimulation()->linear.AddGraphAllocation(owner, RegionOf(graph), parameters->bytesize, &address);
  if (result != CUDA_SUCCESS) return result;
  parameters->dptr = address;
  *node = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
           .address = address,
           .parameters = std::make_shared<CUDA_MEM_ALLOC_NODE_PARAMS>(*parameters)};
  node->parameters->accessDescs = nullptr;  // the caller's, who may be gone
  node->parameters->accessDescCount = 0;
  return CUDA_SUCCESS;
}

CUresult AddAllocation(const char* api, CUgraphNode* handle, CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  if (const CUresult result = Check(handle, graph); result != CUDA_SUCCESS) return result;
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Graph::Node node;
  const CUresult result = MakeAllocation({.api = api}, reinterpret_cast<Graph*>(graph), parameters, &node);
  return result == CUDA_SUCCESS ? Add(handle, graph, node) : result;
}

// One graph frees an address at most once.
CUresult MakeFree(const Caller& caller, Graph* graph, uint64_t address, Graph::Node* node) {
  for (const Graph::Node& known : graph->nodes) {
    if (known.type == CU_GRAPH_NODE_TYPE_MEM_FREE && known.address == address) return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult result = GetSimulation()->linear.AddGraphFree(caller, address); result != CUDA_SUCCESS)
    return result;
  RegionOf(graph);
  *node = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .address = address};
  return CUDA_SUCCESS;
}

CUresult AddFree(const char* api, CUgraphNode* handle, CUgraph graph, CUdeviceptr pointer) {
  if (const CUresult result = Check(handle, graph); result != CUDA_SUCCESS) return result;
  Graph::Node node;
  const CUresult result = MakeFree({.api = api}, reinterpret_cast<Graph*>(graph), pointer, &node);
  return result == CUDA_SUCCESS ? Add(handle, graph, node) : result;
}

CUresult AddChild(CUgraphNode* handle, CUgraph graph, CUgraph child) {
  if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<Graph*>(child)->region != 0) return CUDA_ERROR_NOT_SUPPORTED;  // memory nodes cannot be cloned
  return Add(handle, graph, {.type = CU_GRAPH_NODE_TYPE_GRAPH});
}

CUresult AddAny(const char* api, CUgraphNode* handle, CUgraph graph, CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      auto& any = parameters->alloc;  // the older struct under another name
      CUDA_MEM_ALLOC_NODE_PARAMS older{};
      older.poolProps = any.poolProps;
      older.bytesize = any.bytesize;
      const CUresult result = AddAllocation(api, handle, graph, &older);
      if (result == CUDA_SUCCESS) any.dptr = older.dptr;
      return result;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return AddFree(api, handle, graph, parameters->free.dptr);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return AddChild(handle, graph, parameters->graph.graph);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return Add(handle, graph, {.type = parameters->type});
  }
}

const Graph::Node* NodeOf(CUgraphNode handle, CUgraphNodeType type) {
  const auto* const node = reinterpret_cast<const Graph::Node*>(handle);
  return node != nullptr && node->type == type ? node : nullptr;
}

}  // namespace

CUresult CaptureAllocation(const Caller& caller, CUstream stream, size_t size, const CUmemPoolProps& properties,
                           CUdeviceptr* pointer) {
  Graph* const graph = CapturingGraph(stream);
  if (graph == nullptr) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps = properties;
  parameters.bytesize = size;
  Graph::Node node;
  if (const CUresult result = MakeAllocation(caller, graph, &parameters, &node); result != CUDA_SUCCESS) return result;
  *pointer = parameters.dptr;
  return CaptureNode(stream, node);
}

CUresult CaptureFree(const Caller& caller, CUstream stream, CUdeviceptr pointer) {
  Graph* const graph = CapturingGraph(stream);
  if (graph == nullptr) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  Graph::Node node;
  if (const CUresult result = MakeFree(caller, graph, pointer, &node); result != CUDA_SUCCESS) return result;
  return CaptureNode(stream, node);
}

}  // namespace simcuda

extern "C" {

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t,
                                CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  return AddAllocation("cuGraphAddMemAllocNode", node, graph, parameters);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t, CUdeviceptr pointer) {
  return AddFree("cuGraphAddMemFreeNode", node, graph, pointer);
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  const Graph::Node* const node = NodeOf(handle, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  if (node == nullptr || parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *parameters = *node->parameters;
  return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr* pointer) {
  const Graph::Node* const node = NodeOf(handle, CU_GRAPH_NODE_TYPE_MEM_FREE);
  if (node == nullptr || pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pointer = node->address;
  return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t, CUgraphNodeParams* parameters) {
  return AddAny("cuGraphAddNode", node, graph, parameters);
}

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode*, const CUgraphEdgeData*, size_t,
                           CUgraphNodeParams* parameters) {
  return AddAny("cuGraphAddNode_v2", node, graph, parameters);
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t) {
  return Add(node, graph, {.type = CU_GRAPH_NODE_TYPE_EMPTY});
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t,
                              const CUDA_KERNEL_NODE_PARAMS_v1*) {
  return Add(node, graph, {.type = CU_GRAPH_NODE_TYPE_KERNEL});
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t,
                                 const CUDA_KERNEL_NODE_PARAMS*) {
  return Add(node, graph, {.type = CU_GRAPH_NODE_TYPE_KERNEL});
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t, const CUDA_MEMCPY3D*,
                              CUcontext) {
  return Add(node, graph, {.type = CU_GRAPH_NODE_TYPE_MEMCPY});
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t,
                              const CUDA_MEMSET_NODE_PARAMS*, CUcontext) {
  return Add(node, graph, {.type = CU_GRAPH_NODE_TYPE_MEMSET});
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t,
                            const CUDA_HOST_NODE_PARAMS*) {
  return Add(node, graph, {.type = CU_GRAPH_NODE_TYPE_HOST});
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode*, size_t, CUgraph child) {
  return AddChild(node, graph, child);
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode*, const CUgraphNode*, size_t) {
  return graph == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*,
                                   size_t) {
  return graph == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory of graphs. A node that allocates has an address at once and memory only while its graph runs, and the driver
// keeps that memory for the next launch. So nodes are recorded as marks, and what the device's graphs have reserved is
// read from the driver after launches and trims: once a node has allocated on that device, outside of captures only,
// and recorded where it changed.

#include "shim/hooks/capture.h"
#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/measure.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {

// The calls that begin and end a capture are counted and nothing else.

namespace capture {

std::atomic<int32_t> g_active;
std::atomic<uint64_t> g_begun;

bool AskDriver(CUstream stream, bool per_thread) {
  static std::atomic<void*> plain;
  static std::atomic<void*> ptsz;
  const auto ask = per_thread ? CachedDriverFunction<decltype(&::cuStreamIsCapturing)>(ptsz, "cuStreamIsCapturing_ptsz")
                              : CachedDriverFunction<decltype(&::cuStreamIsCapturing)>(plain, "cuStreamIsCapturing");
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return ask != nullptr && ask(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

}  // namespace capture

namespace {

CUresult Begun(CUresult result) {
  if (result == CUDA_SUCCESS) {
    capture::g_begun.fetch_add(1, std::memory_order_relaxed);
    capture::g_active.fetch_add(1, std::memory_order_relaxed);
  }
  return result;
}

// A capture that was invalidated ends all the same, and says so; a stream that was not captured is another error.
CUresult Ended(CUresult result) {
  const bool ended = result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                     result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (ended && capture::g_active.fetch_sub(1, std::memory_order_relaxed) <= 0) {
    capture::g_active.store(0, std::memory_order_relaxed);  // begun where we did not see it
  }
  return result;
}

}  // namespace
}  // namespace gpumemshim::hooks

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuStreamBeginCapture(CUstream stream) {
  const auto real = GPUMEM_REAL(cuStreamBeginCapture);
  if (real == nullptr) return kMissingDriver;
  return Begun(real(stream));
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  const auto real = GPUMEM_REAL(cuStreamBeginCapture_ptsz);
  if (real == nullptr) return kMissingDriver;
  return Begun(real(stream));
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  const auto real = GPUMEM_REAL(cuStreamBeginCapture_v2);
  if (real == nullptr) return kMissingDriver;
  return Begun(real(stream, mode));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  const auto real = GPUMEM_REAL(cuStreamBeginCapture_v2_ptsz);
  if (real == nullptr) return kMissingDriver;
  return Begun(real(stream, mode));
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
  const auto real = GPUMEM_REAL(cuStreamBeginCaptureToGraph);
  if (real == nullptr) return kMissingDriver;
  return Begun(real(stream, graph, dependencies, edges, count, mode));
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
  const auto real = GPUMEM_REAL(cuStreamBeginCaptureToGraph_ptsz);
  if (real == nullptr) return kMissingDriver;
  return Begun(real(stream, graph, dependencies, edges, count, mode));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* out) {
  const auto real = GPUMEM_REAL(cuStreamEndCapture);
  if (real == nullptr) return kMissingDriver;
  return Ended(real(stream, out));
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* out) {
  const auto real = GPUMEM_REAL(cuStreamEndCapture_ptsz);
  if (real == nullptr) return kMissingDriver;
  return Ended(real(stream, out));
}

}  // extern "C"

namespace gpumemshim::hooks {
namespace {

constexpr int kMaxDevices = 64;
std::atomic<uint64_t> g_devices_with_nodes;     // bit = ordinal
std::atomic<uint64_t> g_reserved[kMaxDevices];  // as recorded last

void NoteNodeOn(int16_t device) {
  if (device >= 0 && device < kMaxDevices) {
    g_devices_with_nodes.fetch_or(uint64_t{1} << device, std::memory_order_relaxed);
  }
}

void RecordGraphMemory(ApiId api, uint64_t handle) {
  for (int16_t device = 0; device < kMaxDevices; ++device) {
    if ((g_devices_with_nodes.load(std::memory_order_relaxed) >> device & 1) == 0) continue;
    uint64_t reserved = 0;
    if (!GraphMemoryReserved(device, &reserved)) continue;
    if (g_reserved[device].exchange(reserved, std::memory_order_relaxed) == reserved) continue;
    Event event = MakeEvent(api, EventKind::kGraphMemory, Memory::kDevice);
    event.device = device;
    event.size = reserved;
    event.handle = handle;
    Emit(event);
  }
}

template <typename Real>
CUresult ThenMeasure(ApiId api, Real real, uint64_t handle) {
  Scope scope;
  const CUresult result = real();
  if (g_devices_with_nodes.load(std::memory_order_relaxed) == 0 || !scope.outermost() || result != CUDA_SUCCESS) {
    return result;
  }
  const ErrnoSaver saver;
  RecordGraphMemory(api, handle);
  return result;
}

void FillAllocNode(Event& event, const CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  const CUmemLocation& location = params.poolProps.location;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) event.device = static_cast<int16_t>(location.id);
  event.address = params.dptr;
  event.size = params.bytesize;
  NoteNodeOn(event.device);
}

CUDA_MEM_ALLOC_NODE_PARAMS AllocParams(const CUgraphNodeParams& node) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps = node.alloc.poolProps;
  params.bytesize = node.alloc.bytesize;
  params.dptr = node.alloc.dptr;
  return params;
}

template <typename Real>
CUresult AddNode(ApiId api, Real real, uint64_t graph, const CUgraphNodeParams* params) {
  const CUgraphNodeType type = params == nullptr ? CU_GRAPH_NODE_TYPE_EMPTY : params->type;
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    return RecordAfter(api, EventKind::kGraphNodeAlloc, Memory::kStreamOrdered, real, [&](Event& event, bool) {
      event.handle = graph;
      FillAllocNode(event, AllocParams(*params));
    });
  }
  if (type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    return RecordAfter(api, EventKind::kGraphNodeFree, Memory::kStreamOrdered, real, [&](Event& event, bool) {
      event.handle = graph;
      event.address = params->free.dptr;
    });
  }
  return real();
}

}  // namespace

namespace capture {

void MarkNode(Event& event) {
  event.kind = EventKind::kGraphNodeAlloc;
  NoteNodeOn(event.device);
}

}  // namespace capture
}  // namespace gpumemshim::hooks

using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  const auto real = GPUMEM_REAL(cuGraphAddMemAllocNode);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuGraphAddMemAllocNode, EventKind::kGraphNodeAlloc, Memory::kStreamOrdered,
      [&] { return real(out, graph, dependencies, count, params); },
      [&](Event& event, bool) {
        event.handle = AddressOf(graph);
        if (params != nullptr) FillAllocNode(event, *params);
      });
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               CUdeviceptr address) {
  const auto real = GPUMEM_REAL(cuGraphAddMemFreeNode);
  if (real == nullptr) return kMissingDriver;
  return RecordAfter(
      ApiId::kcuGraphAddMemFreeNode, EventKind::kGraphNodeFree, Memory::kStreamOrdered,
      [&] { return real(out, graph, dependencies, count, address); },
      [&](Event& event, bool) {
        event.handle = AddressOf(graph);
        event.address = address;
      });
}

CUresult cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                        CUgraphNodeParams* params) {
  const auto real = GPUMEM_REAL(cuGraphAddNode);
  if (real == nullptr) return kMissingDriver;
  return AddNode(
      ApiId::kcuGraphAddNode, [&] { return real(out, graph, dependencies, count, params); }, AddressOf(graph), params);
}

CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* params) {
  const auto real = GPUMEM_REAL(cuGraphAddNode_v2);
  if (real == nullptr) return kMissingDriver;
  return AddNode(
      ApiId::kcuGraphAddNode_v2, [&] { return real(out, graph, dependencies, edges, count, params); }, AddressOf(graph),
      params);
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  const auto real = GPUMEM_REAL(cuGraphLaunch);
  if (real == nullptr) return kMissingDriver;
  return ThenMeasure(
      ApiId::kcuGraphLaunch, [&] { return real(graph, stream); }, AddressOf(graph));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream) {
  const auto real = GPUMEM_REAL(cuGraphLaunch_ptsz);
  if (real == nullptr) return kMissingDriver;
  return ThenMeasure(
      ApiId::kcuGraphLaunch_ptsz, [&] { return real(graph, stream); }, AddressOf(graph));
}

CUresult cuGraphExecDestroy(CUgraphExec graph) {
  const auto real = GPUMEM_REAL(cuGraphExecDestroy);
  if (real == nullptr) return kMissingDriver;
  return ThenMeasure(
      ApiId::kcuGraphExecDestroy, [&] { return real(graph); }, AddressOf(graph));
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
  const auto real = GPUMEM_REAL(cuDeviceGraphMemTrim);
  if (real == nullptr) return kMissingDriver;
  return ThenMeasure(
      ApiId::kcuDeviceGraphMemTrim, [&] { return real(device); }, 0);
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Stream capture: begin, end, questions about it, and what it forbids meanwhile.
#include "simcuda/driver/capture.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only below

namespace simcuda {
namespace {

std::vector<std::weak_ptr<Capture>>& Captures() {  // guarded by StreamMutex()
  static auto* const captures = new std::vector<std::weak_ptr<Capture>>();
  return *captures;
}

std::atomic<int> g_active_captures{0};
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// The rule of cudaThreadExchangeStreamCaptureMode's documentation.
bool Forbids(const Capture& capture) {
  if (capture.status != CU_STREAM_CAPTURE_STATUS_ACTIVE || capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (t_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (capture.thread == std::this_thread::get_id()) return true;
  return t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult Begin(CUstream handle, Graph* graph, CUstreamCaptureMode mode) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  static std::atomic<uint64_t> last_id{0};
  const std::lock_guard lock(StreamMutex());
  Stream* const stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == FindStream(nullptr)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // the legacy stream never captures
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->graph = graph != nullptr ? graph : new Graph();
  capture->origin = stream;
  stream->capture = capture;
  Captures().push_back(capture);
  g_active_captures.fetch_add(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult DescribeCapture(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const std::lock_guard lock(StreamMutex());
  Stream* const stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Capture* const capture = stream->capture.get();
  const bool active = capture != nullptr && capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  *status = capture != nullptr ? capture->status : CU_STREAM_CAPTURE_STATUS_NONE;
  if (id != nullptr) *id = active ? capture->id : 0;
  if (graph != nullptr) *graph = active ? reinterpret_cast<CUgraph>(capture->graph) : nullptr;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CheckUnsafeCall() {
  if (g_active_captures.load(std::memory_order_relaxed) == 0) return CUDA_SUCCESS;
  const std::lock_guard lock(StreamMutex());
  bool forbidden = false;
  for (const auto& known : Captures()) {
    const auto capture = known.lock();
    if (capture == nullptr || !Forbids(*capture)) continue;
    capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    forbidden = true;
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

}  // namespace simcuda

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) { return Begin(handle, nullptr, mode); }

CUresult cuStreamBeginCapture(CUstream handle) { return Begin(handle, nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL); }

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode*, const CUgraphEdgeData*, size_t,
                                     CUstreamCaptureMode mode) {
  return Begin(handle, reinterpret_cast<Graph*>(graph), mode);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const std::lock_guard lock(StreamMutex());
  Stream* const stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  const bool relaxed = capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED;
  if (!relaxed && capture->thread != std::this_thread::get_id()) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  stream->capture = nullptr;
  g_active_captures.fetch_sub(1, std::memory_order_relaxed);
  std::erase_if(Captures(), [&](const auto& known) { return known.expired() || known.lock() == capture; });
  const bool valid = capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  capture->status = CU_STREAM_CAPTURE_STATUS_NONE;  // streams that joined see that it is over
  if (graph != nullptr) *graph = valid ? reinterpret_cast<CUgraph>(capture->graph) : nullptr;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return DescribeCapture(handle, status, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return DescribeCapture(handle, status, id, nullptr);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, size_t* count) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = 0;
  return DescribeCapture(handle, status, id, graph);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return cuStreamGetCaptureInfo_v2(handle, status, id, graph, dependencies, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream, CUgraphNode*, size_t, unsigned) { return CheckContext(); }

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream, CUgraphNode*, const CUgraphEdgeData*, size_t, unsigned) {
  return CheckContext();
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(t_mode, *mode);
  return CUDA_SUCCESS;
}

}  // extern "C"

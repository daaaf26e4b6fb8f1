// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The calls that begin and end a capture are counted and nothing else.

#include "shim/hooks/capture.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
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

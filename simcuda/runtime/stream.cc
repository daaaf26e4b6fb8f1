// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Streams, events and capture.
#include "simcuda/runtime/runtime.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

cudaError_t CaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                        cudaGraph_t* graph, const cudaGraphNode_t** dependencies, const void* edges, size_t* count) {
  SIMCUDA_NEED_CONTEXT();
  cuuint64_t driver_id = 0;
  const CUresult result = Driver().cuStreamGetCaptureInfo(
      stream, reinterpret_cast<CUstreamCaptureStatus*>(status), &driver_id, graph, dependencies,
      static_cast<const CUgraphEdgeData**>(const_cast<void*>(edges)), count);
  if (id != nullptr) *id = driver_id;
  return Check(result);
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamDestroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamSynchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamQuery(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamGetPriority(stream, priority));
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamGetFlags(stream, flags));
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamGetId(stream, id));
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamGetDevice(stream, device));
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t, cudaStream_t) {
  SIMCUDA_NEED_CONTEXT();
  return cudaSuccess;
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t, unsigned) {
  SIMCUDA_NEED_CONTEXT();
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback), data, flags));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuLaunchHostFunc(stream, function, data));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamEndCapture(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(status)));
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  return CaptureInfo(stream, status, id, graph, dependencies, edges, count);
}
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id) {
  return CaptureInfo(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                        cudaGraph_t* graph, const cudaGraphNode_t** dependencies, size_t* count) {
  return CaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}
#endif
#if CUDART_VERSION >= 12030 && CUDART_VERSION < 13000
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                        cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                        const cudaGraphEdgeData** edges, size_t* count) {
  return CaptureInfo(stream, status, id, graph, dependencies, edges, count);
}
#endif

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  SIMCUDA_NEED_DRIVER();
  return Check(Driver().cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuEventCreate(event, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuEventDestroy(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  SIMCUDA_NEED_CONTEXT();
  return Check(Driver().cuEventElapsedTime(milliseconds, start, end));
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/driver/stream.h"

#include <atomic>
#include <ctime>
#include <unordered_map>

#include "simcuda/base/environment.h"

using namespace simcuda;  // NOLINT: C functions only below

// Streams. They are synchronous: every operation is done when the call that enqueued it returns.

namespace simcuda {
namespace {

using StreamTable = std::unordered_map<const void*, std::unique_ptr<Stream>>;

StreamTable& Streams() {
  static auto* const streams = new StreamTable();
  return *streams;
}

uint64_t NextStreamId() {
  static std::atomic<uint64_t> last{2};  // 1 and 2 are the default streams
  return ++last;
}

}  // namespace

std::mutex& StreamMutex() {
  static auto* const mutex = new std::mutex();
  return *mutex;
}

Stream* FindStream(CUstream handle) {
  static auto* const legacy = new Stream{.id = 1};
  static thread_local Stream* per_thread = nullptr;
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return legacy;
  if (handle == CU_STREAM_PER_THREAD) {
    if (per_thread == nullptr) per_thread = new Stream{.flags = CU_STREAM_NON_BLOCKING, .id = 2};
    return per_thread;
  }
  const auto found = Streams().find(handle);
  if (found == Streams().end()) return nullptr;
  Stream* const stream = found->second.get();
  const bool capture_over = stream->capture != nullptr && stream->capture->status == CU_STREAM_CAPTURE_STATUS_NONE;
  if (capture_over) stream->capture = nullptr;  // it had joined another stream's capture
  return stream;
}

CUresult LookUpStream(CUstream handle, StreamState* state) {
  const std::lock_guard lock(StreamMutex());
  const Stream* const stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Context* const context = stream->context != nullptr ? stream->context : CurrentContext();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  state->device = context->device;
  state->capturing = stream->capture != nullptr;
  return CUDA_SUCCESS;
}

CUresult Enqueue(CUstream handle, CUgraphNodeType type, bool* captured) {
  *captured = false;
  const std::lock_guard lock(StreamMutex());
  Stream* const stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  if (stream->capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream->capture->graph->nodes.push_back({.type = type});
  *captured = true;
  return CUDA_SUCCESS;
}

Graph* CapturingGraph(CUstream handle) {
  const std::lock_guard lock(StreamMutex());
  const Stream* const stream = FindStream(handle);
  const bool active =
      stream != nullptr && stream->capture != nullptr && stream->capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return active ? stream->capture->graph : nullptr;
}

CUresult CaptureNode(CUstream handle, const Graph::Node& node) {
  bool captured = false;
  if (const CUresult result = Enqueue(handle, node.type, &captured); result != CUDA_SUCCESS) return result;
  if (!captured) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const std::lock_guard lock(StreamMutex());
  FindStream(handle)->capture->graph->nodes.back() = node;
  return CUDA_SUCCESS;
}

}  // namespace simcuda

namespace {

// Calls visit(stream) with the stream behind the handle, under the lock.
template <typename Visit>
CUresult WithStream(CUstream handle, Visit visit) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(StreamMutex());
  Stream* const stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return visit(stream);
}

CUresult Synchronize(CUstream handle) {
  StreamState state;
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (const CUresult result = LookUpStream(handle, &state); result != CUDA_SUCCESS) return result;
  if (state.capturing) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  WatchProgress(0);
  NoteSynchronisation();
  GetSimulation()->linear.Synchronize(state.device);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuStreamCreateWithPriority", &caller); result != CUDA_SUCCESS)
    return result;
  if (handle == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  GetSimulation()->modules.AddStream(caller);
  const int clamped = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  std::unique_ptr<Stream> stream(
      new Stream{.context = CurrentContext(), .flags = flags, .priority = clamped, .id = NextStreamId()});
  const std::lock_guard lock(StreamMutex());
  *handle = reinterpret_cast<CUstream>(stream.get());
  Streams().emplace(stream.get(), std::move(stream));
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* handle, unsigned flags) { return cuStreamCreateWithPriority(handle, flags, 0); }

CUresult cuStreamDestroy_v2(CUstream handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const std::lock_guard lock(StreamMutex());
  return Streams().erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamSynchronize(CUstream handle) { return Synchronize(handle); }

CUresult cuStreamQuery(CUstream handle) {
  return WithStream(handle, [](const Stream* stream) {
    return stream->capture != nullptr ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return WithStream(handle, [=](const Stream* stream) {
    *priority = stream->priority;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return WithStream(handle, [=](const Stream* stream) {
    *flags = stream->flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return WithStream(handle, [=](const Stream* stream) {
    *id = stream->id;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return WithStream(handle, [=](const Stream* stream) {
    *context = reinterpret_cast<CUcontext>(stream->context != nullptr ? stream->context : CurrentContext());
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(handle, context);
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  StreamState state;
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  const CUresult result = LookUpStream(handle, &state);
  if (result == CUDA_SUCCESS) *device = state.device;
  return result;
}

CUresult cuStreamCopyAttributes(CUstream, CUstream) { return CheckContext(); }
CUresult cuStreamSetAttribute(CUstream, CUstreamAttrID, const CUstreamAttrValue*) { return CheckContext(); }
CUresult cuStreamAttachMemAsync(CUstream, CUdeviceptr, size_t, unsigned) { return CheckContext(); }

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  bool captured = false;
  if (const CUresult result = Enqueue(handle, CU_GRAPH_NODE_TYPE_HOST, &captured); result != CUDA_SUCCESS)
    return result;
  if (!captured) function(data);  // no lock of ours is held
  return CUDA_SUCCESS;
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned) {
  StreamState state;
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (const CUresult result = LookUpStream(handle, &state); result != CUDA_SUCCESS) return result;
  if (state.capturing) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  callback(handle, CUDA_SUCCESS, data);
  return CUDA_SUCCESS;
}

CUresult cuStreamWriteValue32_v2(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned) {
  StreamState state;
  if (const CUresult result = LookUpStream(handle, &state); result != CUDA_SUCCESS) return result;
  if (!state.capturing) GetSimulation()->machine.Fill(address, value, 4, 1);
  return CUDA_SUCCESS;
}

CUresult cuStreamWriteValue64_v2(CUstream handle, CUdeviceptr address, cuuint64_t value, unsigned) {
  StreamState state;
  if (const CUresult result = LookUpStream(handle, &state); result != CUDA_SUCCESS) return result;
  if (!state.capturing) GetSimulation()->machine.Copy(address, reinterpret_cast<uint64_t>(&value), sizeof value);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, cuuint32_t, unsigned) { return CheckContext(); }
CUresult cuStreamWaitValue64_v2(CUstream, CUdeviceptr, cuuint64_t, unsigned) { return CheckContext(); }

}  // extern "C"

// Events: always ready, or with SIMCUDA_EVENTS=late from the next synchronisation on; stamped with the host's clock.

namespace simcuda {
namespace {

using EventTable = std::unordered_map<const void*, std::unique_ptr<Event>>;

EventTable& Events() {
  static auto* const events = new EventTable();
  return *events;
}

uint64_t Now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// Synchronisations so far.
std::atomic<uint64_t> g_synchronisations{0};

std::atomic<uint64_t> g_queries{0};  // whether events are ready

// Whoever asks so often waits for it.
constexpr uint32_t kMaxQueries = 10'000;

bool IsPending(Event* event) {
  return GetEnvironment().late_events && event->recorded && event->queries++ < kMaxQueries &&
         event->synchronisations == g_synchronisations.load(std::memory_order_relaxed);
}

}  // namespace

void NoteSynchronisation() { g_synchronisations.fetch_add(1, std::memory_order_relaxed); }

Event* FindEvent(CUevent handle) {
  const auto found = Events().find(handle);
  return found == Events().end() ? nullptr : found->second.get();
}

}  // namespace simcuda

extern "C" {

CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<Event> event(new Event{.context = CurrentContext(), .flags = flags});
  const std::lock_guard lock(StreamMutex());
  *handle = reinterpret_cast<CUevent>(event.get());
  Events().emplace(event.get(), std::move(event));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const std::lock_guard lock(StreamMutex());
  return Events().erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(StreamMutex());
  Event* const event = FindEvent(handle);
  const Stream* const stream = FindStream(stream_handle);
  if (event == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  event->recorded = true;
  event->queries = 0;
  event->synchronisations = g_synchronisations.load(std::memory_order_relaxed);
  event->time_ns = Now();
  event->capture = stream->capture;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream) { return cuEventRecordWithFlags(handle, stream, 0); }

// Waiting for an event that was recorded in a capture makes the waiting stream part of that capture.
CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(StreamMutex());
  const Event* const event = FindEvent(handle);
  Stream* const stream = FindStream(stream_handle);
  if (event == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const bool capturing = event->capture != nullptr && event->capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (!capturing) return CUDA_SUCCESS;
  if (stream->capture != nullptr && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  stream->capture = event->capture;
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const std::lock_guard lock(StreamMutex());
  Event* const event = FindEvent(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const bool capturing = event->capture != nullptr && event->capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (capturing) return CUDA_ERROR_CAPTURED_EVENT;
  g_queries.fetch_add(1, std::memory_order_relaxed);
  return IsPending(event) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

// How often this process asked whether an event is ready: with it, whether SIMCUDA_EVENTS matters to it.
__attribute__((visibility("default"))) uint64_t simcuda_event_queries() {
  return g_queries.load(std::memory_order_relaxed);
}

CUresult cuEventSynchronize(CUevent handle) {
  WatchProgress(0);
  NoteSynchronisation();
  if (const CUresult result = cuEventQuery(handle); result != CUDA_SUCCESS) return result;
  GetSimulation()->linear.Synchronize(-1);
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const std::lock_guard lock(StreamMutex());
  const Event* const start = FindEvent(start_handle);
  const Event* const end = FindEvent(end_handle);
  if (start == nullptr || end == nullptr || !start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  const auto nanoseconds = static_cast<int64_t>(end->time_ns) - static_cast<int64_t>(start->time_ns);
  *milliseconds = static_cast<float>(static_cast<double>(nanoseconds) / 1e6);
  return CUDA_SUCCESS;
}

}  // extern "C"

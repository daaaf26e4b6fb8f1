// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Events: always ready, or with SIMCUDA_EVENTS=late from the next synchronisation on; stamped with the host's clock.
#include <atomic>
#include <ctime>
#include <unordered_map>

#include "simcuda/base/environment.h"
#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only below

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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// IPC handles, good within the process that made them, and peer access.
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

struct HandleRecord {
  uint64_t process;
  uint64_t value;
};

template <typename Handle>
void Pack(Handle* handle, uint64_t value) {
  const HandleRecord record{static_cast<uint64_t>(::getpid()), value};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle->reserved, &record, sizeof record);
}

template <typename Handle>
CUresult Unpack(const Handle& handle, uint64_t* value) {
  HandleRecord record;
  std::memcpy(&record, handle.reserved, sizeof record);
  *value = record.value;
  return record.process == static_cast<uint64_t>(::getpid()) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

std::mutex g_peers_mutex;

// (device, peer) with access; guarded by g_peers_mutex, never destroyed.
std::set<std::pair<int, int>>& Peers() {
  static auto* const peers = new std::set<std::pair<int, int>>();
  return *peers;
}

}  // namespace

extern "C" {

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  const auto allocation = GetSimulation()->linear.Find(pointer);
  if (!allocation || allocation->kind != AllocationKind::kDevice) return CUDA_ERROR_INVALID_VALUE;
  Pack(handle, allocation->address);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuIpcOpenMemHandle_v2", &caller); result != CUDA_SUCCESS) return result;
  uint64_t address = 0;
  if (const CUresult result = Unpack(handle, &address); result != CUDA_SUCCESS) return result;
  const CUresult result = GetSimulation()->linear.ChangeImports(caller, address, 1);
  if (result == CUDA_SUCCESS) *pointer = address;
  return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuIpcCloseMemHandle", &caller); result != CUDA_SUCCESS) return result;
  return GetSimulation()->linear.ChangeImports(caller, pointer, -1);
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  const std::lock_guard lock(StreamMutex());
  if (FindEvent(event) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Pack(handle, reinterpret_cast<uint64_t>(event));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  uint64_t value = 0;
  if (const CUresult result = Unpack(handle, &value); result != CUDA_SUCCESS) return result;
  return cuEventCreate(event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer_handle, unsigned) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  const Context* const peer = FindContext(peer_handle);
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (peer->device == CurrentContext()->device) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(g_peers_mutex);
  const bool fresh = Peers().insert({CurrentContext()->device, peer->device}).second;
  return fresh ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer_handle) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  const Context* const peer = FindContext(peer_handle);
  if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(g_peers_mutex);
  const bool known = Peers().erase({CurrentContext()->device, peer->device}) == 1;
  return known ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // extern "C"

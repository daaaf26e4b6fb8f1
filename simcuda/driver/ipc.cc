// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// IPC handles, good within the process that made them, and peer access.
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "simcuda/driver/sharing.h"
#include "simcuda/driver/stream.h"

using namespace simcuda;  // NOLINT: C functions only

namespace {

template <typename Handle>
void Pack(Handle* handle, const SharedRecord& record) {
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle->reserved, &record, sizeof record);
}

template <typename Handle>
SharedRecord Unpack(const Handle& handle) {
  SharedRecord record;
  std::memcpy(&record, handle.reserved, sizeof record);
  return record;
}

// Memory of other processes that is open here: a second opening of it counts.
struct Opened {
  uint64_t address = 0;
  int count = 0;
};
using Origin = std::pair<uint32_t, uint64_t>;  // process and address there
std::mutex g_opened_mutex;

std::map<Origin, Opened>& AllOpened() {
  static auto* const opened = new std::map<Origin, Opened>();
  return *opened;
}

CUresult OpenOthers(const Caller& caller, const SharedRecord& record, CUdeviceptr* pointer) {
  const std::lock_guard lock(g_opened_mutex);
  Opened& opened = AllOpened()[{record.process, record.value}];
  if (opened.count == 0) {
    const CUresult result = GetSimulation()->linear.AddForeign(caller, AllocationKind::kImported, record.size,
                                                               record.value, nullptr, &opened.address);
    if (result != CUDA_SUCCESS) {
      AllOpened().erase({record.process, record.value});
      return result;
    }
  }
  ++opened.count;
  *pointer = opened.address;
  return CUDA_SUCCESS;
}

// False where the address is none that OpenOthers() gave.
bool CloseOthers(const Caller& caller, CUdeviceptr pointer, CUresult* result) {
  const std::lock_guard lock(g_opened_mutex);
  for (auto at = AllOpened().begin(); at != AllOpened().end(); ++at) {
    if (at->second.address != pointer) continue;
    *result = CUDA_SUCCESS;
    if (--at->second.count > 0) return true;
    AllOpened().erase(at);
    *result = GetSimulation()->linear.RemoveForeign(caller, pointer);
    return true;
  }
  return false;
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
  Pack(handle, MakeRecord(SharedRecord::kMemory, allocation->address, allocation->size, allocation->device));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuIpcOpenMemHandle_v2", &caller); result != CUDA_SUCCESS) return result;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const SharedRecord record = Unpack(handle);
  if (const CUresult result = CheckRecord(record, SharedRecord::kMemory, &caller.device); result != CUDA_SUCCESS) {
    return result;
  }
  if (!IsOwn(record)) return OpenOthers(caller, record, pointer);
  const CUresult result = GetSimulation()->linear.ChangeImports(caller, record.value, 1);
  if (result == CUDA_SUCCESS) *pointer = record.value;
  return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  Caller caller;
  if (const CUresult result = CurrentCaller("cuIpcCloseMemHandle", &caller); result != CUDA_SUCCESS) return result;
  CUresult result = CUDA_SUCCESS;
  if (CloseOthers(caller, pointer, &result)) return result;
  return GetSimulation()->linear.ChangeImports(caller, pointer, -1);
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  const std::lock_guard lock(StreamMutex());
  if (FindEvent(event) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Pack(handle, MakeRecord(SharedRecord::kEvent, reinterpret_cast<uint64_t>(event), 0, -1));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  int device = -1;
  if (const CUresult result = CheckRecord(Unpack(handle), SharedRecord::kEvent, &device); result != CUDA_SUCCESS) {
    return result;
  }
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

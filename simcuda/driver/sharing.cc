// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/driver/sharing.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "simcuda/driver/driver.h"
#include "simcuda/driver/stream.h"

namespace simcuda {
namespace {

constexpr uint64_t kMagic = 0x31'45'52'41'48'53'4d'49;  // "IMSHARE1"

bool IsAlive(uint32_t process) { return ::kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM; }

int VisibleNumber(int physical) {
  for (const auto& device : GetSimulation()->machine.devices) {
    if (device->physical() == physical) return device->device();
  }
  return -1;
}

}  // namespace

SharedRecord MakeRecord(SharedRecord::Kind kind, uint64_t value, uint64_t size, int device) {
  SharedRecord record{.magic = kMagic, .kind = kind, .process = static_cast<uint32_t>(::getpid())};
  record.value = value;
  record.size = size;
  if (device >= 0) record.device = GetSimulation()->machine.device(device).physical();
  return record;
}

CUresult CheckRecord(const SharedRecord& record, SharedRecord::Kind kind, int* device) {
  if (record.magic != kMagic || record.kind != kind || !IsAlive(record.process)) return CUDA_ERROR_INVALID_VALUE;
  *device = record.device < 0 ? -1 : VisibleNumber(record.device);
  return record.device >= 0 && *device < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

bool IsOwn(const SharedRecord& record) { return record.process == static_cast<uint32_t>(::getpid()); }

CUresult WriteRecord(const SharedRecord& record, int* descriptor) {
  const int file = ::memfd_create("simcuda-shareable", MFD_CLOEXEC);
  if (file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  if (::pwrite(file, &record, sizeof record, 0) != sizeof record) {
    ::close(file);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *descriptor = file;
  return CUDA_SUCCESS;
}

CUresult ReadRecord(void* shareable, SharedRecord* record) {
  const int file = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
  return ::pread(file, record, sizeof *record, 0) == sizeof *record ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace simcuda

using namespace simcuda;  // NOLINT: C functions only

namespace {

// IPC handles, good within the process that made them, and peer access.

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

namespace {

// Pools and their pointers, exported to other processes and imported from them.

static_assert(sizeof(CUmemPoolPtrExportData) == 64);

MemoryPool* SharedPool(CUmemoryPool handle) { return reinterpret_cast<MemoryPool*>(handle); }

}  // namespace

extern "C" {

CUresult cuMemPoolExportToShareableHandle(void* shareable, CUmemoryPool pool, CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int device = GetSimulation()->linear.PoolDevice(SharedPool(pool));
  if (shareable == nullptr || flags != 0 || device < 0) return CUDA_ERROR_INVALID_VALUE;
  return WriteRecord(MakeRecord(SharedRecord::kPool, reinterpret_cast<uint64_t>(pool), 0, device),
                     static_cast<int*>(shareable));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* shareable, CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (pool == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  SharedRecord record;
  Caller caller{.api = "cuMemPoolImportFromShareableHandle"};
  if (const CUresult result = ReadRecord(shareable, &record); result != CUDA_SUCCESS) return result;
  if (const CUresult result = CheckRecord(record, SharedRecord::kPool, &caller.device); result != CUDA_SUCCESS) {
    return result;
  }
  MemoryPool* imported = nullptr;
  const CUresult result = GetSimulation()->linear.ImportPool(caller, &imported);
  if (result == CUDA_SUCCESS) *pool = reinterpret_cast<CUmemoryPool>(imported);
  return result;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr pointer) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const auto allocation = GetSimulation()->linear.Find(pointer);
  const bool exportable = allocation && allocation->kind == AllocationKind::kPool && allocation->device >= 0;
  if (data == nullptr || !exportable) return CUDA_ERROR_INVALID_VALUE;
  const SharedRecord record =
      MakeRecord(SharedRecord::kPoolPointer, allocation->address, allocation->size, allocation->device);
  std::memset(data, 0, sizeof *data);
  std::memcpy(data, &record, sizeof record);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr* pointer, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (pointer == nullptr || data == nullptr || !GetSimulation()->linear.IsImportedPool(SharedPool(pool))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SharedRecord record;
  std::memcpy(static_cast<void*>(&record), data, sizeof record);
  Caller caller{.api = "cuMemPoolImportPointer", .context = CurrentContext()};
  if (const CUresult result = CheckRecord(record, SharedRecord::kPoolPointer, &caller.device); result != CUDA_SUCCESS) {
    return result;
  }
  uint64_t address = 0;
  const CUresult result = GetSimulation()->linear.AddForeign(caller, AllocationKind::kImported, record.size,
                                                             record.value, SharedPool(pool), &address);
  if (result == CUDA_SUCCESS) *pointer = address;
  return result;
}

}  // extern "C"

namespace {

// External memory: made by another interface (Vulkan, ...), imported by a file descriptor, mapped as buffers and
// arrays. It is charged to nobody here. The descriptor belongs to CUDA after a successful import.

std::mutex g_external_mutex;

// Size of each imported memory, by its handle.
std::unordered_map<uint64_t, uint64_t>& Sizes() {
  static auto* const sizes = new std::unordered_map<uint64_t, uint64_t>();
  return *sizes;
}

bool HoldsRange(CUexternalMemory handle, uint64_t offset, uint64_t size) {
  const std::lock_guard lock(g_external_mutex);
  const auto found = Sizes().find(reinterpret_cast<uint64_t>(handle));
  return found != Sizes().end() && size <= found->second && offset <= found->second - size;
}

void Log(const char* api, const char* kind, int device, uint64_t size, uint64_t handle) {
  Machine& machine = GetSimulation()->machine;
  const std::lock_guard lock(machine.mutex);
  machine.Log({.api = api, .kind = kind, .device = device, .size = size, .handle = handle});
}

}  // namespace

extern "C" {

CUresult cuImportExternalMemory(CUexternalMemory* handle, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) {
  if (const CUresult result = CheckContext(); result != CUDA_SUCCESS) return result;
  if (handle == nullptr || description == nullptr || description->size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (description->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) return CUDA_ERROR_NOT_SUPPORTED;
  if (::close(description->handle.fd) != 0) return CUDA_ERROR_INVALID_VALUE;
  static uint64_t last_handle = 0xe000'0000;
  uint64_t created = 0;
  {
    const std::lock_guard lock(g_external_mutex);
    created = last_handle += 64;
    Sizes()[created] = description->size;
  }
  Log("cuImportExternalMemory", "external_import", CurrentContext()->device, description->size, created);
  *handle = reinterpret_cast<CUexternalMemory>(created);
  return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* pointer, CUexternalMemory handle,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* description) {
  Caller caller;
  const CUresult usable = CurrentCaller("cuExternalMemoryGetMappedBuffer", &caller);
  if (usable != CUDA_SUCCESS) return usable;
  if (pointer == nullptr || description == nullptr || !HoldsRange(handle, description->offset, description->size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t address = 0;
  const CUresult result = GetSimulation()->linear.AddForeign(caller, AllocationKind::kExternal, description->size,
                                                             reinterpret_cast<uint64_t>(handle), nullptr, &address);
  if (result == CUDA_SUCCESS) *pointer = address;
  return result;
}

CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray* array, CUexternalMemory handle,
                                                 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC* description) {
  Caller caller;
  const CUresult usable = CurrentCaller("cuExternalMemoryGetMappedMipmappedArray", &caller);
  if (usable != CUDA_SUCCESS) return usable;
  if (array == nullptr || description == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!HoldsRange(handle, description->offset, ArrayBytes(description->arrayDesc))) return CUDA_ERROR_INVALID_VALUE;
  uint64_t created = 0;
  const CUresult result = GetSimulation()->arrays.CreateView(caller, description->arrayDesc, description->numLevels,
                                                             reinterpret_cast<uint64_t>(handle), &created);
  if (result == CUDA_SUCCESS) *array = reinterpret_cast<CUmipmappedArray>(created);
  return result;
}

CUresult cuDestroyExternalMemory(CUexternalMemory handle) {
  if (GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  uint64_t size = 0;
  {
    const std::lock_guard lock(g_external_mutex);
    const auto found = Sizes().find(reinterpret_cast<uint64_t>(handle));
    if (found == Sizes().end()) return CUDA_ERROR_INVALID_HANDLE;
    size = found->second;
    Sizes().erase(found);
  }
  Log("cuDestroyExternalMemory", "external_destroy", -1, size, reinterpret_cast<uint64_t>(handle));
  return CUDA_SUCCESS;
}

}  // extern "C"

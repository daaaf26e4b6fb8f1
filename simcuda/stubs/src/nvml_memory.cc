// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVML's memory questions: how much a device has, how much is used, and by which process.
//
//   first version    used = processes + what the driver keeps;    total = used + free
//   second version   used = processes;    total = used + reserved + free
//
// SIMCUDA_NVML_PROCESSES says how the processes appear: `all` (the default); `foreign`, with the ids of another process
// namespace, as in a container; `unknown`, without their sizes; `none`, as for a user who may not see them.
// Thread-safety: stateless. Failure mode: NVML_ERROR_INSUFFICIENT_SIZE with the count wanted, as the real library.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <stdlib.h>
#include <string.h>

#include "nvml_devices.h"
#include "stub.h"

namespace {

unsigned IndexOf(nvmlDevice_t device) { return static_cast<unsigned>(reinterpret_cast<uintptr_t>(device) - 1); }
bool Known(nvmlDevice_t device) { return IndexOf(device) < simnvml::DeviceCount(); }

// The instance ids exist since the second version of the struct.
void NameInstance(nvmlProcessInfo_v1_t*) {}
template <typename Info>
void NameInstance(Info* info) {
  info->gpuInstanceId = 0xFFFFFFFF;  // "not applicable", as on a device without MIG
  info->computeInstanceId = 0xFFFFFFFF;
}

constexpr unsigned kForeignOffset = 1u << 23;  // beyond every process id of ours

bool Mode(const char* name) {
  const char* mode = getenv("SIMCUDA_NVML_PROCESSES");
  return mode != nullptr && strcmp(mode, name) == 0;
}

template <typename Info>
nvmlReturn_t ListProcesses(nvmlDevice_t device, unsigned* count, Info* infos) {
  if (!Known(device) || count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  simnvml::Process processes[simnvml::kMaxProcesses];
  const unsigned room = *count, wanted = Mode("none") ? 0 : simnvml::Processes(IndexOf(device), processes);
  *count = wanted;
  if (wanted == 0) return NVML_SUCCESS;
  if (room < wanted || infos == nullptr) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < wanted; ++i) {
    infos[i] = Info{};
    infos[i].pid = Mode("foreign") ? kForeignOffset + processes[i].id : processes[i].id;
    infos[i].usedGpuMemory =
        Mode("unknown") ? static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE) : processes[i].bytes;
    NameInstance(&infos[i]);
  }
  return NVML_SUCCESS;
}

nvmlReturn_t NoProcesses(nvmlDevice_t device, unsigned* count) {
  if (!Known(device) || count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

}  // namespace

STUB_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* out) {
  if (!Known(device) || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const simnvml::Memory memory = simnvml::DeviceMemory(IndexOf(device));
  out->total = memory.total_bytes;
  out->used = memory.used_bytes + memory.reserved_bytes;
  out->free = out->total - (out->used < out->total ? out->used : out->total);
  return NVML_SUCCESS;
}

STUB_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* out) {
  nvmlMemory_t memory;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (out->version != static_cast<unsigned>(NVML_STRUCT_VERSION(Memory, 2)))
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (const nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &memory); result != NVML_SUCCESS) return result;
  out->total = memory.total;
  out->reserved = simnvml::DeviceMemory(IndexOf(device)).reserved_bytes;
  out->used = memory.used - out->reserved;
  out->free = memory.free;
  return NVML_SUCCESS;
}

STUB_API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* out) {
  if (!Known(device) || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned long long total = simnvml::DeviceMemory(IndexOf(device)).total_bytes;
  *out = nvmlBAR1Memory_t{total, total, 0};
  return NVML_SUCCESS;
}

STUB_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                           nvmlProcessInfo_v1_t* infos) {
  return ListProcesses(device, count, infos);
}
STUB_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                              nvmlProcessInfo_v2_t* infos) {
  return ListProcesses(device, count, infos);
}
STUB_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                              nvmlProcessInfo_t* infos) {
  return ListProcesses(device, count, infos);
}
STUB_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                            nvmlProcessInfo_v1_t*) {
  return NoProcesses(device, count);
}
STUB_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                               nvmlProcessInfo_v2_t*) {
  return NoProcesses(device, count);
}
STUB_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                               nvmlProcessInfo_t*) {
  return NoProcesses(device, count);
}

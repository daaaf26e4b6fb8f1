// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVML's stub: what monitors and PyTorch ask of a device. Everything else answers NVML_ERROR_NOT_SUPPORTED
// (tables/libnvidia-ml.so.1.txt). A device handle is the device's index + 1.
//
// Thread-safety: all functions. Failure mode: NVML's own codes.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <fcntl.h>
#include <nvml.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "nvml_devices.h"
#include "stub.h"

namespace {

constexpr char kDriverVersion[] = "580.00";

nvmlDevice_t HandleOf(unsigned index) { return reinterpret_cast<nvmlDevice_t>(static_cast<uintptr_t>(index) + 1); }
unsigned IndexOf(nvmlDevice_t device) { return static_cast<unsigned>(reinterpret_cast<uintptr_t>(device) - 1); }
bool Known(nvmlDevice_t device) { return IndexOf(device) < simnvml::DeviceCount(); }

nvmlReturn_t WriteText(char* out, unsigned size, const char* text) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (size <= strlen(text)) return NVML_ERROR_INSUFFICIENT_SIZE;
  memcpy(out, text, strlen(text) + 1);
  return NVML_SUCCESS;
}

template <typename T>
nvmlReturn_t Write(nvmlDevice_t device, T* out, T value) {
  if (!Known(device) || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = value;
  return NVML_SUCCESS;
}

nvmlReturn_t FindDevice(nvmlDevice_t* out, bool (*matches)(unsigned, const char*), const char* wanted) {
  if (out == nullptr || wanted == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (unsigned i = 0; i < simnvml::DeviceCount(); ++i) {
    if (!matches(i, wanted)) continue;
    *out = HandleOf(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

bool HasBusId(unsigned index, const char* wanted) {
  char own[simnvml::kPciBusIdSize];
  simnvml::PciBusId(index, own);
  unsigned a[3] = {}, b[3] = {};
  return sscanf(own, "%x:%x:%x", &a[0], &a[1], &a[2]) == 3 && sscanf(wanted, "%x:%x:%x", &b[0], &b[1], &b[2]) == 3 &&
         memcmp(a, b, sizeof(a)) == 0;
}

bool HasUuid(unsigned index, const char* wanted) {
  char own[NVML_DEVICE_UUID_BUFFER_SIZE];
  simnvml::Uuid(index, own, sizeof(own));
  return strcasecmp(own, wanted) == 0;
}

// What NVML 580 holds open on an H100 from its start to its end: eight devices and an event.
pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;  // the library needs the C library alone, like a driver's
unsigned g_users = 0;
int g_descriptors[9];

void OpenAll() {
  g_descriptors[0] = eventfd(0, EFD_CLOEXEC);
  for (int i = 1; i < 9; ++i) g_descriptors[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
}

nvmlReturn_t Begin() {
  pthread_mutex_lock(&g_mutex);
  if (g_users++ == 0) OpenAll();
  pthread_mutex_unlock(&g_mutex);
  return NVML_SUCCESS;
}

nvmlReturn_t End() {
  pthread_mutex_lock(&g_mutex);
  const bool began = g_users != 0;
  if (began && --g_users == 0) {
    for (const int descriptor : g_descriptors) close(descriptor);
  }
  pthread_mutex_unlock(&g_mutex);
  return began ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

}  // namespace

STUB_API nvmlReturn_t nvmlInit() { return Begin(); }
STUB_API nvmlReturn_t nvmlInit_v2() { return Begin(); }
STUB_API nvmlReturn_t nvmlInitWithFlags(unsigned) { return Begin(); }
STUB_API nvmlReturn_t nvmlShutdown() { return End(); }

STUB_API const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    default:
      return "Unknown Error";
  }
}

STUB_API nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return WriteText(version, length, kDriverVersion);
}
STUB_API nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return WriteText(version, length, "13.580.00");
}
STUB_API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = simnvml::DriverVersion();
  return NVML_SUCCESS;
}
STUB_API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

STUB_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = simnvml::DeviceCount();
  return NVML_SUCCESS;
}
STUB_API nvmlReturn_t nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

STUB_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (device == nullptr || index >= simnvml::DeviceCount()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = HandleOf(index);
  return NVML_SUCCESS;
}
STUB_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}
STUB_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  return FindDevice(device, HasBusId, bus_id);
}
STUB_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* device) {
  return FindDevice(device, HasBusId, bus_id);
}
STUB_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  return FindDevice(device, HasUuid, uuid);
}

STUB_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  return Write(device, index, IndexOf(device));
}
STUB_API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* minor) {
  return Write(device, minor, IndexOf(device));
}
STUB_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  return Known(device) ? WriteText(name, length, simnvml::DeviceName()) : NVML_ERROR_INVALID_ARGUMENT;
}
STUB_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  if (!Known(device)) return NVML_ERROR_INVALID_ARGUMENT;
  char own[NVML_DEVICE_UUID_BUFFER_SIZE];
  simnvml::Uuid(IndexOf(device), own, sizeof(own));
  return WriteText(uuid, length, own);
}
STUB_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  if (!Known(device) || pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  char bus_id[simnvml::kPciBusIdSize];
  simnvml::PciBusId(IndexOf(device), bus_id);
  memset(pci, 0, sizeof(*pci));
  sscanf(bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
  snprintf(pci->busId, sizeof(pci->busId), "%s", bus_id);
  snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
  return NVML_SUCCESS;
}
STUB_API nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvmlDeviceGetPciInfo_v3(device, pci);
}
STUB_API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvmlDeviceGetPciInfo_v3(device, pci);
}
STUB_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  if (!Known(device) || major == nullptr || minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  simnvml::ComputeCapability(major, minor);
  return NVML_SUCCESS;
}
STUB_API nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned* cores) {
  return Write(device, cores, simnvml::Multiprocessors() * 128);
}

// An idle device at room temperature.
STUB_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* rates) {
  return Write(device, rates, nvmlUtilization_t{0, 0});
}
STUB_API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t, unsigned* celsius) {
  return Write(device, celsius, 25u);
}
STUB_API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatts) {
  return Write(device, milliwatts, 0u);
}
STUB_API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t,
                                             nvmlGpuP2PStatus_t* status) {
  return Known(other) ? Write(one, status, NVML_P2P_STATUS_OK) : NVML_ERROR_INVALID_ARGUMENT;
}

// NVML's memory questions: how much a device has, how much is used, and by which process.
//
//   first version    used = processes + what the driver keeps;    total = used + free
//   second version   used = processes;    total = used + reserved + free
//
// SIMCUDA_NVML_PROCESSES says how the processes appear: `all` (the default); `foreign`, with the ids of another process
// namespace, as in a container; `unknown`, without their sizes; `none`, as for a user who may not see them.
// Thread-safety: stateless. Failure mode: NVML_ERROR_INSUFFICIENT_SIZE with the count wanted, as the real library.

namespace {

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

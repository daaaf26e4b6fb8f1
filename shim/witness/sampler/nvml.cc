// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "shim/base/loader.h"
#include "shim/witness/sampler/nvml_files.h"

namespace gpumemshim::sampler {
namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";
constexpr uint64_t kNotAvailable = static_cast<uint64_t>(NVML_VALUE_NOT_AVAILABLE);

template <typename Function>
Function Symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// "GPU-5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a00"
void FormatUuid(const char* prefix, const uint8_t (&uuid)[16], char (&out)[64]) {
  int at = snprintf(out, sizeof(out), "%s", prefix);
  for (int i = 0; i < 16; i++) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    at += snprintf(out + at, sizeof(out) - static_cast<size_t>(at), dash ? "-%02x" : "%02x", uuid[i]);
  }
}

// Fields that all versions of the element begin with.
nvmlProcessInfo_v1_t Element(const uint8_t* elements, size_t stride, uint32_t index) {
  nvmlProcessInfo_v1_t element;
  memcpy(&element, elements + stride * index, sizeof(element));
  return element;
}

// Some drivers of the 535 series answer the newest function with a longer element than the header says.
size_t StrideOf(const uint8_t* elements, size_t stride, uint32_t count) {
  constexpr uint32_t kMaxPids = 1u << 23;  // more than Linux gives out
  for (uint32_t i = 1; i < count; i++) {
    const uint32_t pid = Element(elements, stride, i).pid;
    if (pid == 0 || pid > kMaxPids) return sizeof(nvmlProcessDetail_v1_t);
  }
  return stride;
}

// A process may have a compute and a graphics context; both lists then state all of its memory.
void Add(uint32_t pid, uint64_t bytes, ProcessUse (&out)[Nvml::kMaxProcesses], uint32_t* count) {
  for (uint32_t i = 0; i < *count; i++) {
    if (out[i].pid != pid) continue;
    if (out[i].bytes == kUnknown || (bytes != kUnknown && bytes > out[i].bytes)) out[i].bytes = bytes;
    return;
  }
  if (*count == Nvml::kMaxProcesses) return;
  out[*count].pid = pid;
  out[*count].bytes = bytes;
  out[*count].name[0] = '\0';
  ++*count;
}

}  // namespace

Nvml::Lister Nvml::FindLister(void* library, const char* newest, const char* second, const char* first) {
  Lister lister{Symbol<ListFunction>(library, newest), sizeof(nvmlProcessInfo_v2_t)};
  if (lister.list == nullptr) lister.list = Symbol<ListFunction>(library, second);
  if (lister.list == nullptr) lister = {Symbol<ListFunction>(library, first), sizeof(nvmlProcessInfo_v1_t)};
  return lister;
}

constinit Nvml::Functions Nvml::g_functions;

void Nvml::Load() {
  Functions& found = g_functions;
  if (found.loaded) return;
  const loader::Use use;
  void* library = dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    dlerror();  // ours, not the host's to find
    return;
  }
  KeepFilesAway(library);
  found.init = Symbol<decltype(found.init)>(library, "nvmlInit_v2");
  found.error_string = Symbol<decltype(found.error_string)>(library, "nvmlErrorString");
  found.version = Symbol<decltype(found.version)>(library, "nvmlSystemGetNVMLVersion");
  found.by_uuid = Symbol<decltype(found.by_uuid)>(library, "nvmlDeviceGetHandleByUUID");
  found.memory = Symbol<decltype(found.memory)>(library, "nvmlDeviceGetMemoryInfo");
  found.memory_v2 = Symbol<decltype(found.memory_v2)>(library, "nvmlDeviceGetMemoryInfo_v2");
  found.compute = FindLister(library, "nvmlDeviceGetComputeRunningProcesses_v3",
                             "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses");
  found.graphics = FindLister(library, "nvmlDeviceGetGraphicsRunningProcesses_v3",
                              "nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses");
  found.loaded = true;
}

bool Nvml::Open(char* error, size_t error_size) {
  if (!g_functions.loaded) {
    snprintf(error, error_size, "%s cannot be loaded", kLibrary);
    return false;
  }
  if (g_functions.init == nullptr || g_functions.by_uuid == nullptr || g_functions.memory == nullptr) {
    snprintf(error, error_size, "%s lacks functions that are needed", kLibrary);
    return false;
  }
  if (const nvmlReturn_t result = g_functions.init(); result != NVML_SUCCESS) {
    const char* words = g_functions.error_string == nullptr ? nullptr : g_functions.error_string(result);
    snprintf(error, error_size, "NVML does not start: %.100s (%d)", words == nullptr ? "error" : words,
             static_cast<int>(result));
    return false;
  }
  ReadVersion();
  return true;
}

void Nvml::ReadVersion() {
  char version[48] = "";
  if (g_functions.version == nullptr || g_functions.version(version, sizeof(version)) != NVML_SUCCESS) {
    version[0] = '\0';
  }
  snprintf(version_, sizeof(version_), "NVML%s%.40s", version[0] == '\0' ? "" : " ", version);
}

bool Nvml::FindDevice(const uint8_t (&uuid)[16], nvmlDevice_t* device) const {
  constexpr const char* kPrefixes[] = {"GPU-", "MIG-"};
  for (const char* prefix : kPrefixes) {
    char text[64];
    FormatUuid(prefix, uuid, text);
    if (g_functions.by_uuid(text, device) == NVML_SUCCESS) return true;
  }
  return false;
}

bool Nvml::ReadMemory(nvmlDevice_t device, DeviceSample* out) const {
  nvmlMemory_v2_t memory = {};
  memory.version = nvmlMemory_v2;
  if (g_functions.memory_v2 != nullptr && g_functions.memory_v2(device, &memory) == NVML_SUCCESS) {
    out->total = memory.total;
    out->used = memory.used;
    out->free = memory.free;
    out->driver_reserved = memory.reserved;
    return true;
  }
  nvmlMemory_t first = {};
  if (g_functions.memory(device, &first) != NVML_SUCCESS) return false;
  out->total = first.total;
  out->used = first.used;  // what the driver keeps for itself included
  out->free = first.free;
  return true;
}

bool Nvml::AddProcesses(const Lister& lister, nvmlDevice_t device, ProcessUse (&out)[kMaxProcesses], uint32_t* count) {
  // Room for elements of any known length.
  static uint8_t elements[kMaxProcesses * sizeof(nvmlProcessDetail_v1_t)];
  unsigned listed = kMaxProcesses;
  memset(elements, 0, sizeof(elements));
  if (lister.list == nullptr || lister.list(device, &listed, elements) != NVML_SUCCESS) return false;
  if (listed > kMaxProcesses) return false;
  const size_t stride = StrideOf(elements, lister.stride, listed);
  for (uint32_t i = 0; i < listed; i++) {
    const nvmlProcessInfo_v1_t element = Element(elements, stride, i);
    Add(element.pid, element.usedGpuMemory == kNotAvailable ? kUnknown : element.usedGpuMemory, out, count);
  }
  return true;
}

bool Nvml::ListProcesses(nvmlDevice_t device, ProcessUse (&out)[kMaxProcesses], uint32_t* count) const {
  *count = 0;
  if (!AddProcesses(g_functions.compute, device, out, count)) return false;
  AddProcesses(g_functions.graphics, device, out, count);  // not every device has graphics
  return true;
}

}  // namespace gpumemshim::sampler

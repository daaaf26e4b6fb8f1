// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/nvml.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "shim/base/descriptors.h"
#include "shim/base/import_slots.h"
#include "shim/base/loader.h"

namespace gpumemshim::sampler {
namespace {

// NVML opens the driver's devices when it starts, nine on an H100, and keeps their numbers. Started by us it would take
// the lowest, which the program would get otherwise, and go on with them where the program has closed them and opened
// files of its own. So what the library opens is raised to 900 and more, like what we open ourselves (descriptors.h):
// its imports of open() and its kind lead to functions of ours. What they raise is known to be what was
// opened: a program may have closed the low number meanwhile and been given it for a file of its own.
//
// Where the program has started NVML before us its descriptors are the program's own, and stay where they are.

// Where there is no mode the callee does not look at it.
mode_t ModeOf(va_list arguments, int flags) {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

// A device stays open; what is read at once, of /proc, keeps its number.
int RaiseDevice(int fd, int folder, const char* path) {
  struct stat status;
  if (fd < 0 || fstatat(folder, path, &status, 0) != 0 || !S_ISCHR(status.st_mode)) return fd;
  return descriptors::Raise(fd, {.type = S_IFCHR, .file = {status.st_dev, status.st_ino}});
}

int Open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(arguments, flags);
  va_end(arguments);
  return RaiseDevice(open(path, flags, mode), AT_FDCWD, path);
}

int OpenAt(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(arguments, flags);
  va_end(arguments);
  return RaiseDevice(openat(folder, path, flags, mode), folder, path);
}

// The checked forms of a library built with _FORTIFY_SOURCE.
int OpenChecked(const char* path, int flags) { return RaiseDevice(open(path, flags & ~O_CREAT), AT_FDCWD, path); }
int OpenAtChecked(int folder, const char* path, int flags) {
  return RaiseDevice(openat(folder, path, flags & ~O_CREAT), folder, path);
}

constexpr descriptors::Mark kAnonymous{.type = descriptors::Mark::kNoType, .flags = O_RDWR};
int MakeEvent(unsigned start, int flags) { return descriptors::Raise(eventfd(start, flags), kAnonymous); }
int MakeEpoll(int flags) { return descriptors::Raise(epoll_create1(flags), kAnonymous); }

uintptr_t WrapperOf(const char* name) {
  struct Row {
    const char* name;
    uintptr_t wrapper;
  };
  const Row rows[] = {
      {"open", reinterpret_cast<uintptr_t>(&Open)},
      {"open64", reinterpret_cast<uintptr_t>(&Open)},
      {"openat", reinterpret_cast<uintptr_t>(&OpenAt)},
      {"openat64", reinterpret_cast<uintptr_t>(&OpenAt)},
      {"__open_2", reinterpret_cast<uintptr_t>(&OpenChecked)},
      {"__open64_2", reinterpret_cast<uintptr_t>(&OpenChecked)},
      {"__openat_2", reinterpret_cast<uintptr_t>(&OpenAtChecked)},
      {"__openat64_2", reinterpret_cast<uintptr_t>(&OpenAtChecked)},
      {"eventfd", reinterpret_cast<uintptr_t>(&MakeEvent)},
      {"epoll_create1", reinterpret_cast<uintptr_t>(&MakeEpoll)},
  };
  for (const Row& row : rows) {
    if (strcmp(row.name, name) == 0) return row.wrapper;
  }
  return 0;
}

int Patch(dl_phdr_info* info, size_t, void* data) {
  const auto* map = static_cast<const link_map*>(data);
  const imports::Object object{info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
  if (imports::DynamicOf(object) != map->l_ld) return 0;
  imports::ForEach(object, imports::Which::kAll, [&](const imports::Import& import) {
    if (const uintptr_t wrapper = WrapperOf(import.name); wrapper != 0) imports::Store(object, import.slot, wrapper);
  });
  return 1;
}

// `library`: from dlopen.
void KeepFilesAway(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) loader::Iterate(&Patch, map);
}

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

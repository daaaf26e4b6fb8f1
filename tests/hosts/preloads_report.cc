// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PyTorch's report function and those around it, three times from one source:
//
//   libc10.so         (REPORT_END)   where a report ends, as in PyTorch
//   preload_report    (REPORT_PRELOAD) a second definition in front of it, that passes the report on to the next one
//   preloads_torch    calls it through the PLT, as the caching allocator does, and says how many reports arrived

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#define REPORT _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define EXPORT extern "C" __attribute__((visibility("default")))

struct Device {
  int8_t type, index;
};
EXPORT void REPORT(void*, int64_t, uint64_t, uint64_t, Device);

#if defined(REPORT_END)

static int g_reports;
EXPORT void REPORT(void*, int64_t, uint64_t, uint64_t, Device) { ++g_reports; }
EXPORT int Reports() { return g_reports; }

#elif defined(REPORT_PRELOAD)

static int FindC10(dl_phdr_info* info, std::size_t, void* path) {
  if (std::strstr(info->dlpi_name, "/libc10.so") == nullptr) return 0;
  *static_cast<const char**>(path) = info->dlpi_name;
  return 1;
}

EXPORT void REPORT(void* address, int64_t size, uint64_t allocated, uint64_t reserved, Device device) {
  constexpr char kName[] = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
  void* next = dlsym(RTLD_NEXT, kName);
  const char* path = nullptr;
  if (next == nullptr && dl_iterate_phdr(&FindC10, &path) != 0)
    next = dlsym(dlopen(path, RTLD_LAZY | RTLD_NOLOAD), kName);
  std::printf("report of %ld bytes\n", static_cast<long>(size));
  if (next != nullptr) reinterpret_cast<decltype(&REPORT)>(next)(address, size, allocated, reserved, device);
}

#else

EXPORT int Reports();
EXPORT void UseAllocator() {
  for (int64_t i = 1; i <= 3; ++i) REPORT(reinterpret_cast<void*>(i << 20), 1000 * i, 6000, 8000, {1, 0});
  REPORT(reinterpret_cast<void*>(1 << 20), -1000, 5000, 8000, {1, 0});
  REPORT(reinterpret_cast<void*>(1), 4096, 0, 0, {0, 0});  // of the CPU
  std::printf("%d reports arrived\n", Reports());
  std::fflush(stdout);
}

#endif

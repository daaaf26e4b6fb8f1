// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Makes fresh blocks of PyTorch's CUDA caching allocator read as zeros on the simulated device.
//
// Simulated kernels write nothing, so a recycled block would show what its previous owner copied into it. PyTorch calls
// c10::reportMemoryUsageToProfiler through the PLT at each allocation and free; this library defines that function
// (both manglings that exist), lets the simulated driver forget the block's contents, and passes the call on: to the
// next preloaded library that defines it too, else to libc10, which Python loads out of RTLD_NEXT's sight.
//
// Thread-safety: all functions; the target is looked up once, idempotently. The caller may hold the allocator's mutex:
// nothing here blocks, apart from the loader's lock at the first call. Without a simulated driver, or for other
// devices, a call is passed on untouched. A process that never loads PyTorch runs no code of this file.
//
// Example: LD_PRELOAD=libgpumemshim.so:libsimcuda_zero.so python train.py (either order works).
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#define PRELOAD_API extern "C" __attribute__((visibility("default")))

namespace {

// c10::Device: two bytes, passed in one register.
struct Device {
  int8_t type;
  int8_t index;
};
constexpr int8_t kCuda = 1;

using Report = void(void* pointer, int64_t size, uint64_t allocated, uint64_t reserved, Device device);
using Zero = void(uint64_t pointer, uint64_t bytes);

int FindLibc10(dl_phdr_info* info, size_t, void* path) {
  const char* slash = strrchr(info->dlpi_name, '/');
  if (slash == nullptr || strcmp(slash, "/libc10.so") != 0) return 0;
  *static_cast<const char**>(path) = info->dlpi_name;
  return 1;
}

// A symbol of a library that is loaded already; null if it is not. The extra reference is given back.
void* SymbolIfLoaded(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* symbol = dlsym(handle, name);
  dlclose(handle);
  return symbol;
}

void* FindNext(const char* name) {
  if (void* next = dlsym(RTLD_NEXT, name)) return next;
  const char* path = nullptr;
  dl_iterate_phdr(FindLibc10, &path);
  return path == nullptr ? nullptr : SymbolIfLoaded(path, name);
}

// A look-up's result, kept: 0 unknown, 1 none, else an address. Racing threads find the same.
template <typename Function>
struct Once {
  uintptr_t value = 0;

  template <typename Lookup>
  Function* Get(Lookup lookup) {
    uintptr_t known = __atomic_load_n(&value, __ATOMIC_ACQUIRE);
    if (known == 0) {
      known = reinterpret_cast<uintptr_t>(lookup());
      if (known == 0) known = 1;
      __atomic_store_n(&value, known, __ATOMIC_RELEASE);
    }
    return known == 1 ? nullptr : reinterpret_cast<Function*>(known);
  }
};

Once<Zero> zero;
Once<Report> next_unsigned, next_signed;

void ForgetContents(void* pointer, int64_t size, Device device) {
  if (device.type != kCuda || size <= 0 || pointer == nullptr) return;
  Zero* forget = zero.Get([] { return SymbolIfLoaded("libcuda.so.1", "simcuda_zero"); });
  if (forget != nullptr) forget(reinterpret_cast<uint64_t>(pointer), static_cast<uint64_t>(size));
}

}  // namespace

// void c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, c10::Device)
PRELOAD_API void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void* pointer, int64_t size, uint64_t allocated,
                                                                       uint64_t reserved, Device device) {
  ForgetContents(pointer, size, device);
  Report* next = next_unsigned.Get([] { return FindNext("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"); });
  if (next != nullptr) next(pointer, size, allocated, reserved, device);
}

// The same with int64_t totals, before PyTorch 2.2.
PRELOAD_API void _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(void* pointer, int64_t size, uint64_t allocated,
                                                                       uint64_t reserved, Device device) {
  ForgetContents(pointer, size, device);
  Report* next = next_signed.Get([] { return FindNext("_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE"); });
  if (next != nullptr) next(pointer, size, allocated, reserved, device);
}

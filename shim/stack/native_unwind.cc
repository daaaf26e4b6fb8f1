// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/native_unwind.h"

#include <dlfcn.h>

#include <atomic>

#include "shim/stack/path_cache.h"

namespace gpumemshim::stack {
namespace {

// Signatures of the libraries' public C interfaces, declared here since we link with neither.
using Backtrace = int (*)(void** addresses, int capacity);
using SetCachingPolicy = int (*)(void* address_space, int policy);
constexpr int kCachePerThread = 2;

struct Context;
using Trace = int (*)(Context*, void*);
using UnwindBacktrace = int (*)(Trace, void*);
using GetIp = uintptr_t (*)(Context*);
constexpr int kGoOn = 0;
constexpr int kStop = 5;

std::atomic<Backtrace> g_backtrace;
std::atomic<UnwindBacktrace> g_unwind_backtrace;
std::atomic<GetIp> g_get_ip;
std::atomic<Unwinder> g_unwinder{Unwinder::kNone};

#if defined(__x86_64__)
#define GPUMEM_UNWIND_SYMBOL(name) "_ULx86_64_" name
#elif defined(__aarch64__)
#define GPUMEM_UNWIND_SYMBOL(name) "_ULaarch64_" name
#endif

bool LoadLibunwind() {
  void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    dlerror();
    return false;
  }
  const auto backtrace = reinterpret_cast<Backtrace>(dlsym(library, "unw_backtrace"));
  if (backtrace == nullptr) {
    dlerror();
    return false;
  }
  // Otherwise a miss takes one global lock with all signals blocked.
  auto* set_policy = reinterpret_cast<SetCachingPolicy>(dlsym(library, GPUMEM_UNWIND_SYMBOL("set_caching_policy")));
  auto** address_space = static_cast<void**>(dlsym(library, GPUMEM_UNWIND_SYMBOL("local_addr_space")));
  if (set_policy != nullptr && address_space != nullptr) set_policy(*address_space, kCachePerThread);
  LoadStepper(library);
  g_backtrace.store(backtrace, std::memory_order_release);
  return true;
}

bool LoadLibgcc() {
  void* library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    dlerror();
    return false;
  }
  const auto walk = reinterpret_cast<UnwindBacktrace>(dlsym(library, "_Unwind_Backtrace"));
  const auto get_ip = reinterpret_cast<GetIp>(dlsym(library, "_Unwind_GetIP"));
  if (walk == nullptr || get_ip == nullptr) return false;
  g_get_ip.store(get_ip, std::memory_order_release);
  g_unwind_backtrace.store(walk, std::memory_order_release);
  return true;
}

struct Collected {
  void** out;
  uint32_t capacity;
  uint32_t count;
};

int Collect(Context* context, void* data) {
  auto* collected = static_cast<Collected*>(data);
  if (collected->count >= collected->capacity) return kStop;
  collected->out[collected->count++] = reinterpret_cast<void*>(g_get_ip.load(std::memory_order_relaxed)(context));
  return kGoOn;
}

}  // namespace

Unwinder LoadUnwinder(Unwinder wanted) {
  Unwinder got = Unwinder::kNone;
  if (wanted == Unwinder::kLibunwind && LoadLibunwind()) {
    got = Unwinder::kLibunwind;
  } else if (wanted != Unwinder::kNone && LoadLibgcc()) {
    got = Unwinder::kLibgcc;
  }
  g_unwinder.store(got, std::memory_order_release);
  return got;
}

Unwinder CurrentUnwinder() { return g_unwinder.load(std::memory_order_acquire); }

const char* UnwinderName(Unwinder unwinder) {
  switch (unwinder) {
    case Unwinder::kLibunwind:
      return "libunwind";
    case Unwinder::kLibgcc:
      return "libgcc";
    case Unwinder::kNone:
      break;
  }
  return "none";
}

uint32_t UnwindNative(void** out, uint32_t capacity) {
  switch (g_unwinder.load(std::memory_order_acquire)) {
    case Unwinder::kLibunwind: {
      const int count = g_backtrace.load(std::memory_order_relaxed)(out, static_cast<int>(capacity));
      return count < 0 ? 0 : static_cast<uint32_t>(count);
    }
    case Unwinder::kLibgcc: {
      Collected collected{out, capacity, 0};
      g_unwind_backtrace.load(std::memory_order_relaxed)(&Collect, &collected);
      return collected.count;
    }
    case Unwinder::kNone:
      break;
  }
  return 0;
}

}  // namespace gpumemshim::stack

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Several libcudart may live in one process (11, 12 and 13), each with a state of its own, and the loader binds all
// their callers to our one wrapper. A call goes to the libcudart that the object of its caller was linked with. Found
// once for a call site and remembered by its return address.
//
//   g_sites: | key = return address and function | the libcudart's function |   filled, never changed
//
// Thread-safety: any thread; a site's key is claimed by compare-exchange, its function published by a release store.
// Failure: callers that are linked with no libcudart, and those beyond the table, get the first libcudart's function.
//
//   void* real = RealFunctionFor(ApiId::kcudaMalloc, __builtin_return_address(0));

#ifndef GPUMEM_SHIM_BASE_CALLS_CALLER_RUNTIME_H_
#define GPUMEM_SHIM_BASE_CALLS_CALLER_RUNTIME_H_

#include <atomic>
#include <cstdint>

#include "shim/base/api.h"
#include "shim/base/calls/real.h"

namespace gpumemshim::calls {

struct CallSite {
  std::atomic<uint64_t> key;  // 0 = free
  std::atomic<void*> function;
};

inline constexpr uint32_t kCallSites = 1024;  // power of two
inline constexpr uint32_t kSiteProbes = 8;
extern CallSite g_sites[kCallSites];

inline uint64_t SiteKey(ApiId id, const void* caller) {
  static_assert(kApiCount < 512);
  return reinterpret_cast<uint64_t>(caller) << 9 | static_cast<uint64_t>(id);
}

inline uint32_t SiteIndex(uint64_t key) {
  return static_cast<uint32_t>(key * 0x9e3779b97f4a7c15u >> 54);  // the highest 10 bits
}

void* ResolveForCaller(ApiId id, const void* caller);

inline void* RealFunctionFor(ApiId id, const void* caller) {
  if (ApiLayer(id) != Layer::kRuntime) return RealFunction(id);
  const uint64_t key = SiteKey(id, caller);
  const uint32_t start = SiteIndex(key);
  for (uint32_t i = 0; i < kSiteProbes; ++i) {
    CallSite& site = g_sites[(start + i) % kCallSites];
    const uint64_t taken = site.key.load(std::memory_order_relaxed);
    if (taken == 0) break;
    if (taken != key) continue;
    void* known = site.function.load(std::memory_order_acquire);
    if (known != nullptr) return known;
    break;
  }
  return ResolveForCaller(id, caller);
}

}  // namespace gpumemshim::calls

#endif  // GPUMEM_SHIM_BASE_CALLS_CALLER_RUNTIME_H_

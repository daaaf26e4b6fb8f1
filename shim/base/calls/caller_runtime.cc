// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/calls/caller_runtime.h"

#include "shim/base/calls/scope.h"
#include "shim/base/symbol_lookup.h"

namespace gpumemshim::calls {

CallSite g_sites[kCallSites];

namespace {

void Remember(uint64_t key, void* function) {
  const uint32_t start = SiteIndex(key);
  for (uint32_t i = 0; i < kSiteProbes; ++i) {
    CallSite& site = g_sites[(start + i) % kCallSites];
    uint64_t taken = 0;
    if (site.key.compare_exchange_strong(taken, key, std::memory_order_relaxed) || taken == key) {
      site.function.store(function, std::memory_order_release);
      return;
    }
  }
}

}  // namespace

void* ResolveForCaller(ApiId id, const void* caller) {
  const ErrnoSaver saver;
  void* function = RealFunction(id);
  // Another preload's function comes first, whoever calls. A runtime that is not there yet may come later.
  if (function == nullptr || g_foreign_runtime[static_cast<uint16_t>(id)].load(std::memory_order_relaxed)) {
    return function;
  }
  char library[128];
  if (FindNeeded(caller, "libcudart", library, sizeof library)) {
    if (void* own = FindAndPin(library, ApiName(static_cast<uint16_t>(id)))) function = own;
  }
  Remember(SiteKey(id, caller), function);
  return function;
}

}  // namespace gpumemshim::calls

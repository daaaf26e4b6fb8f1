// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/own_contexts.h"

#include "shim/hooks/cuda_api.h"

namespace gpumemshim::hooks {

std::atomic<int32_t> g_own_contexts;

namespace {

constexpr int kMost = 256;
std::atomic<uint64_t> g_contexts[kMost];

bool Replace(uint64_t from, uint64_t to) {
  for (auto& slot : g_contexts) {
    uint64_t expected = from;
    if (slot.compare_exchange_strong(expected, to, std::memory_order_acq_rel)) return true;
  }
  return false;
}

}  // namespace

uint64_t FindOwnContext() {
  static std::atomic<void*> get_current;
  const auto get = CachedDriverFunction<decltype(&::cuCtxGetCurrent)>(get_current, "cuCtxGetCurrent");
  CUcontext current = nullptr;
  if (get == nullptr || get(&current) != CUDA_SUCCESS || current == nullptr) return 0;
  for (const auto& slot : g_contexts) {
    if (slot.load(std::memory_order_acquire) == AddressOf(current)) return AddressOf(current);
  }
  return 0;
}

void AddOwnContext(uint64_t context) {
  if (context != 0 && Replace(0, context)) g_own_contexts.fetch_add(1, std::memory_order_acq_rel);
}

void RemoveOwnContext(uint64_t context) {
  if (context != 0 && Replace(context, 0)) g_own_contexts.fetch_sub(1, std::memory_order_acq_rel);
}

}  // namespace gpumemshim::hooks

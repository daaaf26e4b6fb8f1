// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/own_contexts.h"

#include "shim/hooks/cuda_api.h"

namespace gpumemshim::hooks {

std::atomic<int32_t> g_own_contexts;

namespace {

constexpr int kMax = 256;
std::atomic<uint64_t> g_contexts[kMax];
std::atomic<int32_t> g_users[kMax];  // beyond the first

bool Replace(uint64_t from, uint64_t to) {
  for (int i = 0; i < kMax; ++i) {
    uint64_t expected = from;
    if (!g_contexts[i].compare_exchange_strong(expected, to, std::memory_order_acq_rel)) continue;
    g_users[i].store(0, std::memory_order_relaxed);
    return true;
  }
  return false;
}

std::atomic<int32_t>* UsersOf(uint64_t context) {
  for (int i = 0; context != 0 && i < kMax; ++i) {
    if (g_contexts[i].load(std::memory_order_acquire) == context) return &g_users[i];
  }
  return nullptr;
}

}  // namespace

uint64_t FindOwnContext() {
  static std::atomic<void*> get_current;
  const auto get = CachedDriverFunction<decltype(&::cuCtxGetCurrent)>(get_current, "cuCtxGetCurrent");
  CUcontext current = nullptr;
  if (get == nullptr || get(&current) != CUDA_SUCCESS || current == nullptr) return 0;
  return IsOwnContext(AddressOf(current)) ? AddressOf(current) : 0;
}

bool IsOwnContext(uint64_t context) { return UsersOf(context) != nullptr; }

void AddUser(uint64_t context) {
  if (auto* const users = UsersOf(context)) users->fetch_add(1, std::memory_order_relaxed);
}

bool TakeUser(uint64_t context) {
  auto* const users = UsersOf(context);
  if (users == nullptr) return false;
  int32_t count = users->load(std::memory_order_relaxed);
  while (count > 0 && !users->compare_exchange_weak(count, count - 1, std::memory_order_relaxed)) {
  }
  return count > 0;
}

void AddOwnContext(uint64_t context) {
  if (context != 0 && Replace(0, context)) g_own_contexts.fetch_add(1, std::memory_order_acq_rel);
}

void RemoveOwnContext(uint64_t context) {
  if (context != 0 && Replace(context, 0)) g_own_contexts.fetch_sub(1, std::memory_order_acq_rel);
}

}  // namespace gpumemshim::hooks

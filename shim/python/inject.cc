// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/inject.h"

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "shim/python/api.h"
#include "shim/python/companion.h"
#include "shim/python/failures.h"
#include "shim/python/natives.h"
#include "shim/stack/module_objects.h"

extern "C" __attribute__((visibility("hidden"))) const char gpumem_helper_source[];

namespace gpumemshim::python {
namespace {

// A program whose modules cannot be named asks again with each new stack; it is heard so often.
constexpr uint32_t kMostLooks = 2000;

std::atomic<bool> g_on{false};
std::atomic<bool> g_pending{false};
std::atomic<uint32_t> g_looks{0};

// With the GIL held, from here on.

Object* g_look;    // the function, once the helper stands
Object* g_record;  // what it was given
bool g_broken;

Object* MakeLook(const Api* api) {
  g_record = MakeRecord(api);
  Object* globals = g_record == nullptr ? nullptr : RunSource(api, gpumem_helper_source, g_record);
  Object* look = globals == nullptr ? nullptr : api->get_item(globals, "look");
  if (look != nullptr) api->increment(look);
  if (globals != nullptr) api->decrement(globals);
  return look;
}

int Look(void*) {
  g_pending.store(false, std::memory_order_relaxed);
  const Api* api = Load();
  if (api == nullptr || g_broken) return 0;
  const int saved_errno = errno;
  if (g_look == nullptr) g_look = MakeLook(api);
  if (g_look == nullptr) {
    g_broken = true;
    constexpr char kText[] = "it does not run in this Python";
    AddFailure(kText, sizeof kText - 1, true);
    errno = saved_errno;
    return EndCall(api);
  }
  Object* result = api->call(g_look, nullptr);
  errno = saved_errno;
  // The helper lets through only what the program raised: a signal handler of its own.
  if (result == nullptr) return -1;
  const bool has_torch = result != api->none;
  api->decrement(result);
  return has_torch ? RunCompanion(api, g_record) : 0;
}

}  // namespace

void Enable(bool on) {
  g_on.store(on, std::memory_order_relaxed);
  stack::SetUnnamedListener(on ? &RequestLook : nullptr);
}

bool IsEnabled() { return g_on.load(std::memory_order_relaxed); }

void RequestLook() {
  if (!g_on.load(std::memory_order_relaxed) || g_pending.exchange(true, std::memory_order_relaxed)) return;
  const Api* api = g_looks.fetch_add(1, std::memory_order_relaxed) < kMostLooks ? Load() : nullptr;
  if (api == nullptr || api->add_pending_call(&Look, nullptr) != 0) g_pending.store(false, std::memory_order_relaxed);
}

}  // namespace gpumemshim::python

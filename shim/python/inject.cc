// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/inject.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "shim/python/api.h"
#include "shim/python/existing.h"
#include "shim/python/failures.h"
#include "shim/python/injected_script.h"
#include "shim/python/natives.h"
#include "shim/python/objects.h"
#include "shim/stack/module_objects.h"

extern "C" __attribute__((visibility("hidden"))) const char gpumem_helper_source[];

namespace gpumemshim::python {
namespace {

// A program whose modules cannot be named asks again with each new stack; it is heard so often.
constexpr uint32_t kMaxLooks = 2000;

std::atomic<bool> g_on{false};
std::atomic<bool> g_pending{false};
std::atomic<uint32_t> g_looks{0};

// With the GIL held, from here on.

Object* g_look;    // the function, once the helper stands
Object* g_record;  // what it was given
bool g_broken;

Object* MakeLook(const Api* api) {
  if (g_record == nullptr) g_record = MakeRecord(api);
  Object* globals = g_record == nullptr ? nullptr : RunSource(api, gpumem_helper_source, g_record);
  Object* look = globals == nullptr ? nullptr : api->get_item(globals, "look");
  if (look != nullptr) api->increment(look);
  if (globals != nullptr) api->decrement(globals);
  return look;
}

// The error that is set, if one is, ends here.
void TellThatItDoesNotRun(const Api* api) {
  char text[96] = "it does not run in this Python";
  size_t size = std::strlen(text);
  if (Object* const kind = api->has_error(); kind != nullptr) {
    api->increment(kind);
    api->clear_error();
    Object* const name = api->get_attribute(kind, "__name__");
    Object* const encoded = name == nullptr ? nullptr : api->call_method(name, "encode", nullptr);
    char* bytes = nullptr;
    std::ptrdiff_t length = 0;
    if (encoded != nullptr && api->bytes(encoded, &bytes, &length) == 0)
      size += static_cast<size_t>(snprintf(text + size, sizeof text - size, ": %.40s", bytes));
    for (Object* object : {encoded, name, kind}) {
      if (object != nullptr) api->decrement(object);
    }
    api->clear_error();
  }
  AddFailure(text, size, true);
}

int Look(void*) {
  g_pending.store(false, std::memory_order_relaxed);
  const Api* api = Load();
  if (api == nullptr || g_broken) {
    EndExisting(ExistingResult::kNotAsked);
    return 0;
  }
  const int saved_errno = errno;
  if (g_look == nullptr) g_look = MakeLook(api);
  if (g_look == nullptr) {
    // An interrupt, or what else a signal handler of the program raised meanwhile: the next look begins afresh.
    if (api->has_error() != nullptr && api->error_matches(api->exception) == 0) return -1;
    g_broken = true;
    EndExisting(ExistingResult::kNotAsked);
    TellThatItDoesNotRun(api);
    errno = saved_errno;
    return 0;
  }
  Object* result = CallQuietly(api, g_look, nullptr);
  errno = saved_errno;
  // The helper lets through only what the program raised: a signal handler of its own.
  if (result == nullptr) return -1;
  const bool has_torch = result != api->none;
  api->decrement(result);
  return has_torch ? RunInjectedScript(api, g_record) : 0;
}

}  // namespace

void Enable(bool on) {
  g_on.store(on, std::memory_order_relaxed);
  stack::SetUnnamedListener(on ? &RequestLook : nullptr);
}

bool IsEnabled() { return g_on.load(std::memory_order_relaxed); }

void RequestLook() {
  if (!g_on.load(std::memory_order_relaxed) || g_pending.exchange(true, std::memory_order_relaxed)) return;
  const Api* api = g_looks.fetch_add(1, std::memory_order_relaxed) < kMaxLooks ? Load() : nullptr;
  if (api == nullptr || api->add_pending_call(&Look, nullptr) != 0) g_pending.store(false, std::memory_order_relaxed);
}

}  // namespace gpumemshim::python

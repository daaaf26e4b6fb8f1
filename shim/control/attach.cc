// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/attach.h"

#include <string.h>

#include <atomic>

#include "shim/base/memory_checkers.h"
#include "shim/calls/scope.h"
#include "shim/control/recording.h"
#include "shim/control/session.h"
#include "shim/control/session_state.h"
#include "shim/control/slot_scan.h"

namespace gpumemshim::control {
namespace {

constexpr size_t kMaxSettings = 3072;

// "NAME=VALUE" one behind the other, each with its end; an empty one is the last. Written before g_attached is set.
char g_settings_text[kMaxSettings + 2];
std::atomic<bool> g_attached;
std::atomic_flag g_busy = ATOMIC_FLAG_INIT;

void TakeSettings(const char* lines) {
  const size_t size = lines == nullptr ? 0 : strnlen(lines, kMaxSettings);
  for (size_t i = 0; i < size; ++i) g_settings_text[i] = lines[i] == '\n' ? '\0' : lines[i];
  g_settings_text[size] = g_settings_text[size + 1] = '\0';
}

}  // namespace

bool WasAttached() { return g_attached.load(std::memory_order_acquire); }

const char* AttachSetting(const char* name) {
  if (!WasAttached()) return nullptr;
  const size_t size = strlen(name);
  for (const char* at = g_settings_text; *at != '\0'; at += strlen(at) + 1) {
    if (strncmp(at, name, size) == 0 && at[size] == '=') return at + size + 1;
  }
  return nullptr;
}

}  // namespace gpumemshim::control

extern "C" __attribute__((visibility("default"))) int gpumemshim_attach_v1(const char* settings);

int gpumemshim_attach_v1(const char* settings) {
  using namespace gpumemshim;  // NOLINT: the definition of a C function
  if (control::g_busy.test_and_set(std::memory_order_acquire)) return 0;
  {
    const calls::ErrnoSaver saver;
    const calls::Scope scope;
    const control::State state = control::g_state.load(std::memory_order_acquire);
    if (state == control::State::kIdle && !control::g_attached.load(std::memory_order_relaxed)) {
      control::TakeSettings(settings);
      control::g_attached.store(true, std::memory_order_release);
    }
    BypassMemoryCheckers();
    control::PatchSlots();
    // Set up without recording, so that recording begins as it does in any program that is under way.
    control::g_wish.store(control::Wish::kDormant, std::memory_order_relaxed);
    session::StartAtInit();
    control::StartRecording();
  }
  control::g_busy.clear(std::memory_order_release);
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/attach.h"

#include <atomic>

#include "shim/base/calls/scope.h"
#include "shim/base/memory_checkers.h"
#include "shim/control/loader/slot_scan.h"
#include "shim/control/recording.h"
#include "shim/control/secure_mode.h"
#include "shim/control/session.h"
#include "shim/control/session_state.h"
#include "shim/settings/given_settings.h"

namespace gpumemshim::control {
namespace {

std::atomic<bool> g_attached;
std::atomic_flag g_busy = ATOMIC_FLAG_INIT;

}  // namespace

bool WasAttached() { return g_attached.load(std::memory_order_acquire); }

}  // namespace gpumemshim::control

extern "C" __attribute__((visibility("default"))) int gpumemshim_attach_v1(const char* settings);

int gpumemshim_attach_v1(const char* settings) {
  using namespace gpumemshim;  // NOLINT: the definition of a C function
  if (control::IsSecureMode() || control::g_busy.test_and_set(std::memory_order_acquire)) return 0;
  {
    const calls::ErrnoSaver saver;
    const calls::Scope scope;
    const control::State state = control::g_state.load(std::memory_order_acquire);
    if (state == control::State::kIdle && !control::g_attached.load(std::memory_order_relaxed)) {
      control::GiveSettings(settings);
      control::g_attached.store(true, std::memory_order_release);
    }
    BypassMemoryCheckers();
    // Set up without recording, so that recording begins as it does in any program that is under way; also where the
    // program itself comes through the first hooks.
    control::g_wish.store(control::Wish::kDormant, std::memory_order_release);
    control::PatchSlots();
    session::StartAtInit();
    control::StartRecording();
  }
  control::g_busy.clear(std::memory_order_release);
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/late_entry.h"

#include <atomic>

#include "shim/base/api.h"
#include "shim/base/calls/real.h"
#include "shim/base/calls/scope.h"
#include "shim/base/memory_checkers.h"
#include "shim/control/loader/slot_scan.h"
#include "shim/control/recording.h"
#include "shim/control/session.h"
#include "shim/control/session_state.h"
#include "shim/settings/settings.h"

namespace gpumemshim::control {
namespace {

std::atomic<bool> g_attached;
std::atomic_flag g_busy = ATOMIC_FLAG_INIT;

}  // namespace

bool WasAttached() { return g_attached.load(std::memory_order_acquire); }

// Loading through CUDA_INJECTION64_PATH: the driver opens us inside cuInit and calls InitializeInjection. The runtime
// has fetched the driver's functions by then, so the hooks go in by a scan of slots (slot_scan.h says what that
// misses). Only programs that use CUDA are touched that way: no shell, compiler or child with another C library ever
// loads us.
//
// Nothing is set up here: whether cuInit succeeds is not known yet. The first event does it. Only where CUPTI is to
// watch too, the session begins at once: it sees the calls for which no event ever comes.

namespace {

std::atomic<bool> g_injected;

// A preload's cuInit has found the driver's before it called that, and with it us.
bool IsPreloaded() {
  const auto id = static_cast<uint16_t>(ApiId::kcuInit);
  return calls::g_real_functions[id].load(std::memory_order_acquire) != nullptr;
}

}  // namespace

bool WasInjected() { return g_injected.load(std::memory_order_relaxed); }

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

extern "C" __attribute__((visibility("default"))) int InitializeInjection();

int InitializeInjection() {
  using namespace gpumemshim;  // NOLINT: the definition of a C function
  const calls::ErrnoSaver saver;
  const calls::Scope scope;
  if (!control::IsPreloaded() && !control::g_injected.exchange(true, std::memory_order_relaxed)) {
    BypassMemoryCheckers();
    control::PatchSlots();
  }
  if (control::ReadSettings().cupti) session::StartAtEvent();
  return 1;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/request.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "shim/base/clock.h"
#include "shim/base/thread.h"
#include "shim/python/api.h"
#include "shim/python/inject.h"

extern "C" __attribute__((visibility("hidden"))) const char gpumem_live_source[];

namespace gpumemshim::python {
namespace {

// The asker: kIdle -> kAsked, and kDone -> kIdle; or, when time is up, kAsked | kRunning -> kGivenUp. The main thread:
// kAsked -> kRunning -> kDone, and kGivenUp -> kIdle.
enum State : uint32_t { kIdle, kAsked, kRunning, kDone, kGivenUp };
std::atomic<uint32_t> g_state{kIdle};
pid_t g_asker;  // a forked child has no request under way

constexpr const char* kFunctions[] = {"answer_tensors", "answer_gradients", "answer_gc", "answer_backtrace",
                                      "answer_eval"};

// Of the request under way: written by the asker before kAsked (release), by the main thread before kDone (release).
Request g_request;
char g_argument[kMaxArgumentBytes];
char g_answer[kMaxReplyBytes];
size_t g_size;
bool g_failed;

Object* g_globals;  // of live.py; with the GIL held

void Copy(const Api* api, Object* result) {
  char* text = nullptr;
  std::ptrdiff_t size = 0;
  if (result == nullptr || api->bytes(result, &text, &size) != 0) return;
  g_size = static_cast<size_t>(size) < kMaxReplyBytes ? static_cast<size_t>(size) : kMaxReplyBytes;
  std::memcpy(g_answer, text, g_size);
  g_failed = false;
}

Object* CallWithArgument(const Api* api, Object* function) {
  if (g_request != Request::kEval) return api->call(function, nullptr);
  Object* const argument = api->new_string(g_argument);
  if (argument == nullptr) return nullptr;
  Object* const result = api->call_with(function, argument, nullptr);
  api->decrement(argument);
  return result;
}

int Answer(void*) {
  uint32_t asked = kAsked;
  if (!g_state.compare_exchange_strong(asked, kRunning, std::memory_order_acquire)) {
    g_state.compare_exchange_strong(asked = kGivenUp, kIdle, std::memory_order_relaxed);
    return 0;
  }
  const int saved_errno = errno;
  g_failed = true;
  const Api* api = Load();
  if (api != nullptr && g_globals == nullptr) g_globals = RunSource(api, gpumem_live_source, nullptr);
  Object* function =
      g_globals == nullptr ? nullptr : api->get_item(g_globals, kFunctions[static_cast<uint32_t>(g_request)]);
  Object* result = function == nullptr ? nullptr : CallWithArgument(api, function);
  Copy(api, result);
  if (result != nullptr) api->decrement(result);
  const int code = api == nullptr ? 0 : EndCall(api);
  uint32_t running = kRunning;
  if (!g_state.compare_exchange_strong(running, kDone, std::memory_order_release))
    g_state.store(kIdle, std::memory_order_relaxed);
  FutexWakeAll(&g_state);
  errno = saved_errno;
  return code;
}

// False where the main thread did not come to it in time.
bool Wait(uint32_t timeout_ms) {
  const uint64_t deadline_ns = MonotonicNs() + uint64_t{timeout_ms} * 1'000'000;
  for (;;) {
    uint32_t state = g_state.load(std::memory_order_acquire);
    if (state == kDone) return true;
    if (MonotonicNs() < deadline_ns) {
      FutexWait(&g_state, state, 100'000'000);
    } else if (g_state.compare_exchange_strong(state, kGivenUp, std::memory_order_acquire)) {
      return false;
    }
  }
}

}  // namespace

const char* Ask(Request request, const char* argument, uint32_t timeout_ms, char* out, size_t* size) {
  if (!IsEnabled()) return "nothing may run in the program's Python (GPUMEMSHIM_HELPER=0)";
  const Api* api = Load();
  if (api == nullptr) return "there is no Python in this program that can be asked";
  if (const pid_t pid = getpid(); g_asker != pid) {
    g_asker = pid;
    g_state.store(kIdle, std::memory_order_relaxed);
  }
  if (g_state.load(std::memory_order_acquire) != kIdle) return "the program's main thread is still busy with a request";
  g_request = request;
  std::strncpy(g_argument, argument, sizeof g_argument - 1);
  g_state.store(kAsked, std::memory_order_release);
  if (api->add_pending_call(&Answer, nullptr) != 0) {
    g_state.store(kIdle, std::memory_order_relaxed);
    return "Python takes no more calls at the moment; ask again";
  }
  if (!Wait(timeout_ms))
    return "the program's main thread did not come to it in time: it is in one long call, or waits (a prompt, a "
           "notebook, a server: its next input brings it to it)";
  *size = g_size;
  std::memcpy(out, g_answer, g_size);
  const bool failed = g_failed;
  g_state.store(kIdle, std::memory_order_release);
  return failed ? "the request failed in the program's Python" : nullptr;
}

}  // namespace gpumemshim::python

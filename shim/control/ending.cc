// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/ending.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/base/apart.h"
#include "shim/base/calls/scope.h"
#include "shim/base/descriptors.h"
#include "shim/base/memory_checkers.h"
#include "shim/base/symbol_lookup.h"
#include "shim/base/thread.h"
#include "shim/control/loader/unseen_calls.h"
#include "shim/control/marks.h"
#include "shim/control/sampling.h"
#include "shim/control/server/server.h"
#include "shim/control/session_state.h"
#include "shim/control/stderr_lines.h"
#include "shim/control/summary_only.h"
#include "shim/settings/settings.h"
#include "shim/witness/cupti/cupti.h"
#include "shim/witness/oom/reporter.h"
#include "shim/witness/oom/summarizer.h"
#include "shim/witness/sampler/sampler.h"
#include "shim/writer/writer.h"

// The linker's name for our own image, by which the C library tells handlers of different libraries apart.
extern "C" void* __dso_handle __attribute__((visibility("hidden")));

extern "C" int __cxa_at_quick_exit(void (*handler)(void*), void* library) noexcept;

namespace gpumemshim::control {
namespace {

constexpr uint32_t kStopTimeoutMs = 2000;
constexpr uint32_t kSwitchWaitMs = 200;
constexpr uint32_t kSetUpWaitMs = 500;
constexpr uint32_t kCuptiTimeoutMs = 500;
constexpr uint32_t kServerStopTimeoutMs = 500;
constexpr uint64_t kSayWaitNs = 200'000'000;

// Of the thread that entered kEnded: its id, and 1 after it printed its last line (futex).
std::atomic<int32_t> g_ender;
std::atomic<uint32_t> g_reported;

int32_t ThreadId() { return static_cast<int32_t>(syscall(SYS_gettid)); }

void SleepMillisecond() {
  const timespec millisecond{0, 1'000'000};
  nanosleep(&millisecond, nullptr);
}

uint32_t ReportTimeoutMs() {
  return (g_settings.oom_report ? oom::kWaitAtEndMs : 0) + (g_rank_settings.summary_at_end() ? oom::kSummaryWaitAtEndMs
                                                            : g_rank_settings.summary_interval_ms != 0
                                                                ? oom::kSummaryStopMs
                                                                : 0);
}

// From one of three states to kEnded, past a switch that is under way. False: there is nothing to end.
bool EnterEnd() {
  for (uint32_t i = 0; i < kSwitchWaitMs; ++i) {
    State state = g_state.load(std::memory_order_acquire);
    const bool may_end = state == State::kActive || state == State::kPaused || state == State::kDormant;
    if (may_end && g_state.compare_exchange_strong(state, State::kEnded, std::memory_order_acq_rel)) {
      g_ender.store(ThreadId(), std::memory_order_release);
      return state != State::kDormant;
    }
    if (!may_end && state != State::kSwitching) return false;
    SleepMillisecond();
  }
  return false;
}

// There is no trace to say it in.
void SayUnseen() {
  if (FindUnseen(true) == 0) return;
  const Settings settings = ReadSettings();
  static char line[1536];
  if (settings.log >= LogLevel::kWarning && !settings.disabled) WriteLine(line, UnseenLine(line, sizeof line));
}

bool LacksSomething(const writer::Summary& summary) {
  return !summary.complete || summary.error[0] != '\0' || summary.dropped_allocs != 0 || summary.dropped_frees != 0 ||
         summary.unwritten_events != 0;
}

void SaySummary(const writer::Summary& summary) {
  static char line[2 * sizeof summary.path + 1024];
  SayLine(LacksSomething(summary) ? LogLevel::kError : LogLevel::kInfo, line,
          SummaryLine(summary, {FailedCallbacks(), g_facts.working_directory, SummaryTarget()}, line, sizeof line));
}

// By another thread: what it made so far would die with us. This one itself, which a signal interrupted, is at no ring.
void AwaitSetUp() {
  if (g_starter.load(std::memory_order_acquire) == ThreadId()) return;
  for (uint32_t i = 0; i < kSetUpWaitMs && g_state.load(std::memory_order_acquire) == State::kStarting; ++i) {
    SleepMillisecond();
  }
}

void EndSaying() {
  g_reported.store(1, std::memory_order_release);
  FutexWakeAll(&g_reported);
}

// Another thread ends the session: it will not get to its last line once this one has ended the process.
void AwaitSaying() {
  const int32_t ender = g_ender.load(std::memory_order_acquire);
  if (ender != 0 && ender != ThreadId()) FutexWait(&g_reported, 0, kSayWaitNs);
}

void AtQuickExit(void*) { EndSessionNow(); }

using AtQuickExitFunction = decltype(&__cxa_at_quick_exit);

AtQuickExitFunction NextAtQuickExit() {
  static std::atomic<void*> known;
  void* found = known.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = FindNext("__cxa_at_quick_exit");
    known.store(found, std::memory_order_release);
  }
  return reinterpret_cast<AtQuickExitFunction>(found);
}

void WatchQuickExit() {
  static std::atomic<bool> watched;
  if (watched.exchange(true, std::memory_order_relaxed)) return;
  const AtQuickExitFunction real = NextAtQuickExit();
  if (real != nullptr) real(&AtQuickExit, &__dso_handle);
}

[[noreturn]] void Leave(int status) {
  // Another preload may stand behind us. The C library's does nothing more than the call itself.
  const auto next = reinterpret_cast<void (*)(int)>(FindNext("_exit"));
  if (next != nullptr) next(status);
  for (;;) syscall(SYS_exit_group, status);
}

}  // namespace

void EndSession() {
  if (IsSecureMode()) return;
  BypassMemoryCheckers();
  const int32_t pid = g_pid.load(std::memory_order_relaxed);
  if (pid == 0) return SayUnseen();  // no system call, unless there is something to say: a sandbox may kill for one
  if (pid != getpid()) return;       // a child that no fork handler saw
  const calls::Scope scope;
  const NoCancellation no_cancellation;
  if (g_state.load(std::memory_order_acquire) == State::kStarting) AwaitSetUp();
  server::Stop(kServerStopTimeoutMs);
  if (!EnterEnd()) {
    // A thread in _exit may be at it, and our return would end it.
    if (writer::EndNow(kStopTimeoutMs, ReportTimeoutMs()) != nullptr) AwaitSaying();
    return;
  }
  if (g_settings.cupti) cupti::Finish(kCuptiTimeoutMs);
  FinishSampling();
  static writer::Summary summary;
  summary = writer::Stop(kStopTimeoutMs, ReportTimeoutMs());
  apart::Stop();
  if (IsSaid(LogLevel::kWarning) && !summary.opened && !summary.timed_out) SayUnseen();
  SaySummary(summary);
  EndSaying();
}

void EndSessionNow() {
  const State state = g_state.load(std::memory_order_acquire);
  if (state == State::kIdle || state == State::kForked || state == State::kFailed) return;
  if (g_pid.load(std::memory_order_relaxed) != getpid()) return;  // a child, perhaps in its parent's memory
  const calls::Scope scope;
  const NoCancellation no_cancellation;
  if (state == State::kStarting) AwaitSetUp();
  const bool ours = EnterEnd();
  if (state != State::kEnded) server::RemoveSocketFile();
  sampler::StartNoMore();
  const writer::Summary* summary = writer::EndNow(kStopTimeoutMs, ReportTimeoutMs());
  if (summary == nullptr) return;
  if (!ours) return AwaitSaying();
  // Workers that a program forked end like this, by hundreds.
  if (!g_facts.forked || LacksSomething(*summary)) SaySummary(*summary);
  EndSaying();
}

void PrepareEnd() {
  g_ender.store(0, std::memory_order_relaxed);
  g_reported.store(0, std::memory_order_relaxed);
  WatchQuickExit();
}

namespace {

constexpr char kOurs[] = "gpumemshim-";

struct Entry {  // linux_dirent64, as the kernel writes it
  uint64_t inode;
  int64_t next;
  uint16_t size;
  uint8_t type;
  char name[1];
};

// The state follows the name, which may hold anything, a bracket too.
bool HasEnded(const char* stat_path) {
  char text[512];
  if (descriptors::ReadText(stat_path, text, sizeof text) == 0) return false;
  const char* bracket = strrchr(text, ')');
  return bracket != nullptr && (bracket[2] == 'Z' || bracket[2] == 'X');
}

bool IsOursOrEnded(const char* thread) {
  char path[64], name[32];
  snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", thread);
  if (descriptors::ReadText(path, name, sizeof name) == 0) return true;  // gone meanwhile
  if (strncmp(name, kOurs, sizeof kOurs - 1) == 0) return true;
  snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
  return HasEnded(path);
}

// Of a thread that has ended nothing is left to ask for, and /proc/self is the first one. Asked about every second, so
// without a descriptor, which another thread may see.
bool HasFirstEnded() {
  char any;
  return readlink("/proc/self/exe", &any, 1) < 0 && readlink("/proc/thread-self/exe", &any, 1) > 0;
}

bool OnlyOursAreLeft() {
  const int folder = descriptors::Raise(open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder < 0) return false;
  bool only_ours = true;
  alignas(Entry) char entries[2048];
  long size = 0;
  while (only_ours && (size = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; only_ours && at < size;) {
      const auto* entry = reinterpret_cast<const Entry*>(entries + at);
      if (entry->name[0] != '.') only_ours = IsOursOrEnded(entry->name);
      at += entry->size;
    }
  }
  close(folder);
  return only_ours && size == 0;
}

// Not one of ours that exit() waits for. Handlers of the program run here, with the stack and the signals of its
// threads.
void* Exit(void*) {
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  std::exit(0);
}

}  // namespace

void ExitIfOnlyOursAreLeft() {
  static bool leaves = false;
  if (leaves || !HasFirstEnded() || !OnlyOursAreLeft()) return;
  pthread_t thread;
  leaves = pthread_create(&thread, nullptr, &Exit, nullptr) == 0;
}

}  // namespace gpumemshim::control

extern "C" {

__attribute__((visibility("default"))) void _exit(int status) {
  gpumemshim::control::EndSessionNow();
  gpumemshim::control::Leave(status);
}

__attribute__((visibility("default"))) void _Exit(int status) noexcept { _exit(status); }

// What at_quick_exit calls. Handlers run newest first, and what they do with CUDA is to be in the trace: so ours is the
// oldest.
__attribute__((visibility("default"))) int __cxa_at_quick_exit(void (*handler)(void*), void* library) noexcept {
  gpumemshim::control::WatchQuickExit();
  const auto real = gpumemshim::control::NextAtQuickExit();
  return real == nullptr ? -1 : real(handler, library);
}
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/writer.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>

#include "shim/base/apart.h"
#include "shim/base/clock.h"
#include "shim/base/thread.h"
#include "shim/ring/dead_rings.h"
#include "shim/ring/ring.h"
#include "shim/writer/session.h"

namespace gpumemshim::writer {
namespace {

constexpr uint64_t kClearIntervalNs = 30'000'000'000;
constexpr uint32_t kReturnMs = 200;  // for a thread that has nothing left to do, on a machine that starves it

// Everything of one Start; in memory of its own, so that a thread given up by Stop can go on with it. It stays mapped
// until the next Start: any thread may be in EndNow with its address.
struct Run {
  explicit Run(const Config& config) : session(std::in_place, config), interval_ms(config.interval_ms) {}

  std::optional<Session> session;
  uint32_t interval_ms;
  uint32_t pid = 0;
  pthread_t thread = {};
  Summary summary = {};
  std::atomic<int32_t> thread_id{0};
  std::atomic<uint32_t> stop{0};
  std::atomic<uint32_t> drained{0};   // futex; the file has its end, the summary is made, the ring's file is gone
  std::atomic<uint32_t> finished{0};  // futex; nothing comes after
  std::atomic<uint32_t> passes{0};    // futex
  std::atomic<uint64_t> written_until_ns{0};
  std::atomic<uint32_t> stop_timeout_ms{0};
  // Copied between two readings of an even `progress_version` that are equal; odd while it is written. By 8-byte words,
  // so that a copy that is thrown away is not a data race. A word's release and acquire take the odd version along, as
  // a fence would, which the thread sanitizer does not know.
  std::atomic<uint32_t> progress_version{0};
  std::atomic<uint64_t> progress[sizeof(Progress) / 8] = {};
};

Run* g_run = nullptr;
std::atomic<Run*> g_last{nullptr};  // g_run, also once its Stop has begun

void PublishProgress(Run* run) {
  static_assert(sizeof(Progress) % 8 == 0);
  Progress progress = {};
  run->session->Report(&progress);
  uint64_t words[sizeof(Progress) / 8];
  memcpy(words, &progress, sizeof(words));
  const uint32_t version = run->progress_version.load(std::memory_order_relaxed);
  run->progress_version.store(version + 1, std::memory_order_relaxed);
  for (size_t i = 0; i < sizeof(Progress) / 8; i++) run->progress[i].store(words[i], std::memory_order_release);
  run->progress_version.store(version + 2, std::memory_order_release);
}

// False: it changes all the time.
bool ReadProgress(const Run* run, Progress* progress) {
  for (int attempt = 0; attempt < 1000; attempt++) {
    const uint32_t version = run->progress_version.load(std::memory_order_acquire);
    if (version % 2 != 0) continue;
    uint64_t words[sizeof(Progress) / 8];
    for (size_t i = 0; i < sizeof(Progress) / 8; i++) words[i] = run->progress[i].load(std::memory_order_acquire);
    if (run->progress_version.load(std::memory_order_relaxed) != version) continue;
    memcpy(progress, words, sizeof(words));
    return true;
  }
  return false;
}

void Announce(std::atomic<uint32_t>* word) {
  word->store(1, std::memory_order_release);
  FutexWakeAll(word);
}

// False: time was up.
bool Await(std::atomic<uint32_t>* word, uint32_t timeout_ms) {
  const uint64_t deadline_ns = MonotonicNs() + uint64_t{timeout_ms} * 1'000'000;
  for (uint64_t now_ns = MonotonicNs(); word->load(std::memory_order_acquire) == 0; now_ns = MonotonicNs()) {
    if (now_ns >= deadline_ns) return false;
    FutexWait(word, 0, deadline_ns - now_ns);
  }
  return true;
}

void AskToStop(Run* run, uint32_t timeout_ms) {
  uint32_t none = 0;
  run->stop_timeout_ms.compare_exchange_strong(none, timeout_ms, std::memory_order_relaxed);
  run->stop.store(1, std::memory_order_release);
  ring::Wake();
}

// What others left that died: at the start, now and then, and at the end.
void ClearDeadRings() {
  if (ring::Directory()[0] != '\0') apart::Do([] { ring::ClearDeadRings(ring::Directory()); });
}

void* Main(void* argument) {
  Run* run = static_cast<Run*>(argument);
  prctl(PR_SET_NAME, "gpumemshim-disk", 0, 0, 0);
  ring::BecomeWriter();
  run->thread_id.store(static_cast<int32_t>(syscall(SYS_gettid)), std::memory_order_release);
  uint64_t cleared_ns = 0;
  while (run->stop.load(std::memory_order_acquire) == 0) {
    if (!run->session->has_more()) ring::SleepUntilWoken(uint64_t{run->interval_ms} * 1'000'000);
    if (run->stop.load(std::memory_order_acquire) != 0) break;
    const uint64_t now_ns = MonotonicNs();
    ring::Maintain(now_ns);
    run->session->Pass(false);
    PublishProgress(run);
    run->written_until_ns.store(run->session->written_until_ns(), std::memory_order_release);
    run->passes.fetch_add(1, std::memory_order_release);
    FutexWakeAll(&run->passes);
    if (now_ns - cleared_ns < kClearIntervalNs) continue;
    ClearDeadRings();
    cleared_ns = now_ns;
  }
  ring::Stop(run->stop_timeout_ms.load(std::memory_order_relaxed) / 2);
  run->session->Pass(true);
  run->session->Finish(&run->summary);
  ring::Unlink();
  ClearDeadRings();  // before the process may end
  Announce(&run->drained);
  run->session->ReportEnd();
  Announce(&run->finished);
  return nullptr;
}

void ReleaseLast() {
  Run* last = g_last.load(std::memory_order_relaxed);
  if (last == nullptr || last->session.has_value()) return;  // its thread was given up and goes on with it
  g_last.store(nullptr, std::memory_order_relaxed);
  last->~Run();
  munmap(static_cast<void*>(last), sizeof(Run));
}

// Of a run whose thread hangs in a write, most likely.
void SummarizeProgress(const Run* run, Summary* summary) {
  Progress progress;
  summary->timed_out = true;
  if (!ReadProgress(run, &progress)) return;
  memcpy(summary->path, progress.path, sizeof(summary->path));
  summary->events = progress.events;
}

// The run of this process; a forked child finds its parent's and forgets it. One that lives in its parent's memory (its
// ring is active) leaves it alone.
Run* Current() {
  if (g_run != nullptr && g_run->pid != static_cast<uint32_t>(getpid()) && !ring::Active()) ForgetInChild();
  return g_run;
}

}  // namespace

bool Start(const Config& config) {
  if (Current() != nullptr) return true;
  if (!ring::Active()) return false;
  int saved = errno;
  ReleaseLast();
  void* memory = mmap(nullptr, sizeof(Run), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool started = false;
  if (memory != MAP_FAILED) {
    Run* run = new (memory) Run(config);
    run->pid = static_cast<uint32_t>(getpid());
    if (run->interval_ms == 0) run->interval_ms = 1;
    started = run->session->Init() && StartThread(&run->thread, &Main, run);
    if (started) {
      g_run = run;
      g_last.store(run, std::memory_order_release);
    } else {
      run->~Run();
      munmap(memory, sizeof(Run));
    }
  }
  errno = saved;
  return started;
}

Summary Stop(uint32_t timeout_ms, uint32_t report_timeout_ms) {
  Summary summary = {};
  Run* run = Current();
  if (run == nullptr) return summary;
  int saved = errno;
  g_run = nullptr;
  AskToStop(run, timeout_ms);
  // Where nothing is to be waited for the thread is about to return. It is joined all the same: what it has of the C
  // library (its dlerror(), say) is given back by its very end, and LeakSanitizer would call it lost.
  if (Await(&run->drained, timeout_ms) && Await(&run->finished, std::max(report_timeout_ms, kReturnMs))) {
    pthread_join(run->thread, nullptr);
    summary = run->summary;
    run->session.reset();
  } else {
    if (run->drained.load(std::memory_order_acquire) != 0) {
      summary = run->summary;
    } else {
      SummarizeProgress(run, &summary);
    }
    pthread_detach(run->thread);
  }
  errno = saved;
  return summary;
}

const Summary* EndNow(uint32_t timeout_ms, uint32_t report_timeout_ms) {
  Run* run = g_last.load(std::memory_order_acquire);
  if (run == nullptr || run->pid != static_cast<uint32_t>(getpid())) return nullptr;
  const int32_t writer = run->thread_id.load(std::memory_order_acquire);
  if (writer == static_cast<int32_t>(syscall(SYS_gettid))) return nullptr;
  // Equal pids may be of two PID namespaces, and the caller in the other one, in this one's memory.
  if (writer != 0 && syscall(SYS_tgkill, getpid(), writer, 0) != 0 && errno == ESRCH &&
      run->finished.load(std::memory_order_acquire) == 0) {
    return nullptr;
  }
  ring::AbandonRecord();
  AskToStop(run, timeout_ms);
  if (!Await(&run->drained, timeout_ms)) return nullptr;
  Await(&run->finished, report_timeout_ms);
  return &run->summary;
}

void GetProgress(Progress* progress) {
  memset(progress, 0, sizeof(*progress));
  const Run* run = Current();
  if (run != nullptr) ReadProgress(run, progress);
}

void Flush() {
  if (ring::Active()) ring::Wake();
}

bool FlushAndWait(uint32_t timeout_ms) {
  Run* run = Current();
  if (run == nullptr) return false;
  int saved = errno;
  uint64_t start_ns = MonotonicNs();
  uint64_t deadline_ns = start_ns + uint64_t{timeout_ms} * 1'000'000;
  bool done = false;
  while (true) {
    uint32_t passes = run->passes.load(std::memory_order_acquire);
    done = run->written_until_ns.load(std::memory_order_acquire) >= start_ns;
    if (done || MonotonicNs() >= deadline_ns) break;
    ring::Wake();
    FutexWait(&run->passes, passes, 2'000'000);
  }
  errno = saved;
  return done;
}

void ForgetInChild() {
  if (g_run != nullptr && g_run->pid != static_cast<uint32_t>(getpid())) {
    g_run->session->Abandon();  // the rest is the parent's memory, copied; its thread is not here
    g_run = nullptr;
  }
  Run* last = g_last.load(std::memory_order_relaxed);
  if (last != nullptr && last->pid != static_cast<uint32_t>(getpid())) g_last.store(nullptr, std::memory_order_relaxed);
}

}  // namespace gpumemshim::writer

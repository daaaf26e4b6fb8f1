// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/server/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "shim/base/apart.h"
#include "shim/base/calls/scope.h"
#include "shim/base/clock.h"
#include "shim/base/descriptors.h"
#include "shim/base/thread.h"
#include "shim/control/loader/slot_scan.h"
#include "shim/control/recording.h"
#include "shim/control/server/control_socket.h"
#include "shim/control/server/requests.h"

namespace gpumemshim::control::server {
namespace {

constexpr int kRestAfterErrorMs = 200;
constexpr int kRestBeforeReopenMs = 20;
constexpr uint64_t kLookNs = 50'000'000, kLookWhenAskedNs = 2'000'000, kAskedNs = 500'000'000;
constexpr uint32_t kMaxReopened = 64;  // of a program that closes whatever it finds

ControlSocket g_socket;
constinit Callers g_callers;           // the thread's
std::atomic<uint32_t> g_stop;          // futex
std::atomic<uint32_t> g_finished;      // futex
std::atomic<uint32_t> g_signals_seen;  // since the thread looked
std::atomic<bool> g_scan_wanted;
const char* g_directory = "";
uint32_t g_reopened;  // the thread's
uint64_t g_asked_ns;  // the thread's: when somebody last called
pthread_t g_thread;
std::atomic<bool> g_running;

void OnSignal(int) { g_signals_seen.fetch_add(1, std::memory_order_relaxed); }

void TakeSignal(int number) {
  struct sigaction present;
  if (sigaction(number, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) return;
  struct sigaction ours;
  std::memset(&ours, 0, sizeof ours);
  ours.sa_handler = &OnSignal;
  ours.sa_flags = SA_RESTART;
  sigaction(number, &ours, nullptr);
}

bool MayAsk(int fd) {
  ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

// And hangs up.
void Answer(int fd, const char* line, size_t size) {
  static char answer[kMaxAnswerBytes];  // the thread's own, off its small stack
  const descriptors::Identity caller = descriptors::IdentityOf(fd);
  const size_t answer_size = AnswerRequest(ParseRequest(line, size), answer, sizeof answer);
  if (!descriptors::Is(fd, caller)) return;  // the program closed it meanwhile
  // Smaller than a socket's buffer, so a caller that does not read holds nobody up.
  send(fd, answer, answer_size, MSG_NOSIGNAL | MSG_DONTWAIT);
  close(fd);
}

void AcceptCallers() {
  for (uint32_t i = 0; i < Callers::kMax; ++i) {
    const int fd =
        descriptors::Raise(accept4(g_socket.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK), kSocketMark);
    if (fd >= 0 && MayAsk(fd)) {
      g_callers.Add(fd, MonotonicNs());
      continue;
    }
    if (fd >= 0) {
      close(fd);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      const timespec rest = {0, kRestAfterErrorMs * 1'000'000L};  // no descriptors left, say
      nanosleep(&rest, nullptr);
    }
    return;
  }
}

void AnswerCallers() {
  int fd = -1;
  const char* line = nullptr;
  size_t size = 0;
  for (uint32_t i = 0; i < Callers::kMax && !IsStopping(); ++i) {
    if (!g_callers.TakeLine(MonotonicNs(), &fd, &line, &size)) return;
    Answer(fd, line, size);
  }
}

// Programs close descriptors that they do not know; this one is then made anew, when such a program has done with it.
void HaveSocket() {
  if (g_socket.fd < 0 || IsStillOpen(g_socket) || g_reopened == kMaxReopened) return;
  g_reopened++;
  const timespec rest = {0, kRestBeforeReopenMs * 1'000'000L};
  nanosleep(&rest, nullptr);
  RemoveFile(g_socket);
  OpenControlSocket(g_directory, getpid(), &g_socket);
}

// Sleeps, and looks for callers now and then: often while somebody asks. A descriptor to be woken by could be the
// program's own a moment after it was looked at (it closes what it does not know), and would have our byte. False: it
// is to end.
bool Rests(pollfd* wanted, uint32_t count) {
  const bool is_asked = count > 1 || MonotonicNs() - g_asked_ns < kAskedNs;
  FutexWait(&g_stop, 0, is_asked ? kLookWhenAskedNs : kLookNs);
  return !IsStopping() && (poll(wanted, count, 0) >= 0 || errno == EINTR);
}

void* Main(void*) {
  prctl(PR_SET_NAME, "gpumemshim-ctl", 0, 0, 0);
  const calls::Scope scope;  // what we call is not the program's
  if (g_socket.fd >= 0) apart::Do([] { RemoveStaleSockets(g_socket); });
  while (!IsStopping()) {
    pollfd wanted[1 + Callers::kMax] = {{IsStillOpen(g_socket) ? g_socket.fd : -1, POLLIN, 0}};
    if (!Rests(wanted, 1 + g_callers.PutFds(wanted + 1))) break;
    HaveSocket();
    if (g_signals_seen.exchange(0, std::memory_order_relaxed) % 2 != 0) SwitchRecording();
    if (g_scan_wanted.exchange(false, std::memory_order_relaxed)) PatchSlots();
    if (wanted[0].revents != 0 && IsStillOpen(g_socket)) AcceptCallers();
    if (wanted[0].revents != 0) g_asked_ns = MonotonicNs();
    AnswerCallers();
  }
  g_callers.CloseAll();
  g_finished.store(1, std::memory_order_release);
  FutexWakeAll(&g_finished);
  return nullptr;
}

}  // namespace

bool IsStopping() { return g_stop.load(std::memory_order_relaxed) != 0; }

bool Start(const Options& options) {
  if (g_running || (!options.listen && options.signal == 0)) return g_running;
  g_stop.store(0, std::memory_order_relaxed);
  g_finished.store(0, std::memory_order_relaxed);
  g_directory = options.directory;
  const bool listens = options.listen && OpenControlSocket(options.directory, getpid(), &g_socket);
  g_running = (listens || options.signal != 0) && StartThread(&g_thread, &Main, nullptr);
  if (g_running && options.signal != 0) TakeSignal(options.signal);
  if (!g_running) CloseControlSocket(&g_socket);
  return g_running;
}

void Stop(uint32_t timeout_ms) {
  if (!g_running) return;
  g_running = false;
  g_stop.store(1, std::memory_order_release);
  FutexWakeAll(&g_stop);
  const uint64_t deadline_ns = MonotonicNs() + uint64_t{timeout_ms} * 1'000'000;
  for (uint64_t now_ns = MonotonicNs(); g_finished.load(std::memory_order_acquire) == 0 && now_ns < deadline_ns;
       now_ns = MonotonicNs()) {
    FutexWait(&g_finished, 0, 10'000'000);
  }
  if (g_finished.load(std::memory_order_acquire) == 0) {
    pthread_detach(g_thread);
    return;  // it still uses the descriptors
  }
  pthread_join(g_thread, nullptr);
  CloseControlSocket(&g_socket);
}

bool ScanSlots() {
  if (g_running) g_scan_wanted.store(true, std::memory_order_relaxed);
  return g_running;
}

size_t PlaceLine(char* out, size_t capacity) { return RefusedLine(g_socket, out, capacity); }

void RemoveSocketFile() { RemoveFile(g_socket); }

void ForgetInChild() {
  g_running = false;
  g_signals_seen.store(0, std::memory_order_relaxed);
  g_scan_wanted.store(false, std::memory_order_relaxed);
  ForgetControlSocket(&g_socket);
  g_callers.CloseAll();  // the parent's thread goes on with its own
}

}  // namespace gpumemshim::control::server

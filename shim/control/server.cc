// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/server.h"

#include <errno.h>
#include <fcntl.h>
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
#include "shim/base/clock.h"
#include "shim/base/descriptors.h"
#include "shim/base/thread.h"
#include "shim/calls/scope.h"
#include "shim/control/callers.h"
#include "shim/control/control_socket.h"
#include "shim/control/recording.h"
#include "shim/control/requests.h"
#include "shim/control/slot_scan.h"

namespace gpumemshim::control::server {
namespace {

constexpr int kRestAfterErrorMs = 200;
constexpr uint32_t kMaxReopened = 64;  // of a program that closes whatever it finds

ControlSocket g_socket;
constinit Callers g_callers;  // the thread's
// A pipe that wakes the thread: Stop, and the signal handler. Not an eventfd, which has no inode of its own: programs
// close descriptors that they do not know, and what they open next under the number must not be read or written.
std::atomic<int> g_wake_reader{-1}, g_wake_writer{-1};
std::atomic<uint64_t> g_wake_device, g_wake_inode;
std::atomic<uint32_t> g_stop;
std::atomic<uint32_t> g_finished;      // futex
std::atomic<uint32_t> g_signals_seen;  // since the thread looked
std::atomic<bool> g_scan_wanted;
const char* g_directory = "";
uint32_t g_reopened;  // the thread's
pthread_t g_thread;
bool g_running;

bool IsOurPipe(int fd) {
  return descriptors::Is(fd,
                         {g_wake_device.load(std::memory_order_relaxed), g_wake_inode.load(std::memory_order_relaxed)});
}

void WakeThread() {
  const int writer = g_wake_writer.load(std::memory_order_relaxed);
  if (IsOurPipe(writer) && write(writer, "", 1) < 0) return;  // full: it is awake anyway
}

bool OpenPipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  const int reader = descriptors::Raise(ends[0]), writer = descriptors::Raise(ends[1]);
  const descriptors::Identity identity = descriptors::IdentityOf(reader);
  g_wake_device.store(identity.device, std::memory_order_relaxed);
  g_wake_inode.store(identity.inode, std::memory_order_relaxed);
  g_wake_reader.store(reader, std::memory_order_relaxed);
  g_wake_writer.store(writer, std::memory_order_relaxed);
  return IsOurPipe(reader) && IsOurPipe(writer);
}

void ClosePipe() {
  for (std::atomic<int>* end : {&g_wake_writer, &g_wake_reader}) {
    const int fd = end->exchange(-1, std::memory_order_relaxed);
    if (IsOurPipe(fd)) close(fd);
  }
}

// In a handler: what is async-signal-safe only.
void OnSignal(int) {
  const int saved = errno;
  g_signals_seen.fetch_add(1, std::memory_order_relaxed);
  WakeThread();
  errno = saved;
}

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
    const int fd = descriptors::Raise(accept4(g_socket.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
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

// The program closed our descriptors: there is no way to wake us, or to ask. False: they cannot be had anew.
bool HasDescriptors() {
  const bool woken = IsOurPipe(g_wake_reader.load(std::memory_order_relaxed)) &&
                     IsOurPipe(g_wake_writer.load(std::memory_order_relaxed));
  const bool asked = g_socket.fd < 0 || IsStillOpen(g_socket);
  if (woken && asked) return true;
  if (g_reopened++ == kMaxReopened) return false;
  if (!woken) ClosePipe();  // the end that is left
  if (!woken && !OpenPipe()) return false;
  if (asked) return true;
  RemoveFile(g_socket);
  OpenControlSocket(g_directory, getpid(), &g_socket);
  return true;
}

void* Main(void*) {
  prctl(PR_SET_NAME, "gpumem-control", 0, 0, 0);
  const calls::Scope scope;  // what we call is not the program's
  if (g_socket.fd >= 0) apart::Do([] { RemoveStaleSockets(g_socket); });
  while (!IsStopping()) {
    const int reader = g_wake_reader.load(std::memory_order_relaxed);
    pollfd wanted[2 + Callers::kMax] = {{reader, POLLIN, 0}, {IsStillOpen(g_socket) ? g_socket.fd : -1, POLLIN, 0}};
    const uint32_t count = 2 + g_callers.PutFds(wanted + 2);
    if (poll(wanted, count, g_callers.TimeoutMs(MonotonicNs())) < 0 && errno != EINTR) break;
    if (IsStopping() || !HasDescriptors()) break;
    char wishes[64];
    if ((wanted[0].revents & POLLIN) != 0 && IsOurPipe(reader) && read(reader, wishes, sizeof wishes) < 0 &&
        errno != EAGAIN)
      break;
    if (g_signals_seen.exchange(0, std::memory_order_relaxed) % 2 != 0) SwitchRecording();
    if (g_scan_wanted.exchange(false, std::memory_order_relaxed)) PatchSlots();
    if (wanted[1].revents != 0 && IsStillOpen(g_socket)) AcceptCallers();
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
  if (!OpenPipe()) return false;
  g_stop.store(0, std::memory_order_relaxed);
  g_finished.store(0, std::memory_order_relaxed);
  g_directory = options.directory;
  const bool listens = options.listen && OpenControlSocket(options.directory, getpid(), &g_socket);
  g_running = (listens || options.signal != 0) && StartThread(&g_thread, &Main, nullptr);
  if (g_running && options.signal != 0) TakeSignal(options.signal);
  if (!g_running) {
    CloseControlSocket(&g_socket);
    ClosePipe();
  }
  return g_running;
}

void Stop(uint32_t timeout_ms) {
  if (!g_running) return;
  g_running = false;
  g_stop.store(1, std::memory_order_relaxed);
  if (!IsOurPipe(g_wake_writer.load(std::memory_order_relaxed))) {
    pthread_detach(g_thread);  // the program closed it, so nothing wakes the thread
    RemoveFile(g_socket);
    return;
  }
  WakeThread();
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
  ClosePipe();
}

bool ScanSlots() {
  if (g_wake_writer.load(std::memory_order_relaxed) < 0) return false;
  if (!g_scan_wanted.exchange(true, std::memory_order_relaxed)) WakeThread();
  return true;
}

size_t PlaceLine(char* out, size_t capacity) { return RefusedLine(g_socket, out, capacity); }

void RemoveSocketFile() { RemoveFile(g_socket); }

void ForgetInChild() {
  g_running = false;
  g_signals_seen.store(0, std::memory_order_relaxed);
  g_scan_wanted.store(false, std::memory_order_relaxed);
  ForgetControlSocket(&g_socket);
  g_callers.CloseAll();  // the parent's thread goes on with its own
  ClosePipe();
}

}  // namespace gpumemshim::control::server

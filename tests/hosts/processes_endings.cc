// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The victim's words that end a process at a bad moment.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "processes_host.h"

namespace victim {
namespace {

void AllocateAndFree() {
  void* memory = nullptr;
  if (cudaMalloc(&memory, 4096) == cudaSuccess) cudaFree(memory);
}

int g_status;

void LeaveFromHandler(int) { _exit(g_status); }
void LeaveAtExit() { _exit(g_status); }

// In a timer's handler, `micros` from now at the earliest, while this thread allocates: CUDA's memory, the heap, and
// what the loader holds.
[[noreturn]] void Ambush(long micros) {
  g_status = 9;
  std::signal(SIGALRM, &LeaveFromHandler);
  itimerval timer{};
  timer.it_value.tv_usec = static_cast<suseconds_t>(micros);
  timer.it_interval.tv_usec = 50'000;
  setitimer(ITIMER_REAL, &timer, nullptr);
  for (unsigned turn = 0;; ++turn) {
    AllocateAndFree();
    std::free(std::malloc(64 + turn % 4096));
    if (turn % 512 != 0) continue;  // the recorder waits for who holds the loader's lock, in vain
    void* library = dlopen("libdl.so.2", RTLD_NOW);
    if (library != nullptr) dlclose(library);
  }
}

// Sixteen threads at once.
[[noreturn]] void LeaveTogether(int status) {
  static std::atomic<int> ready{0};
  for (int i = 0; i < 16; ++i) {
    std::thread([status] {
      ready.fetch_add(1);
      while (ready.load() < 16) {
      }
      _exit(status);
    }).detach();
  }
  for (;;) pause();
}

// A thread that was cancelled, and has not come to a place where that takes effect.
void* LeaveCancelled(void* status) {
  pthread_cancel(pthread_self());
  _exit(static_cast<int>(reinterpret_cast<std::size_t>(status)));
}

// A sandbox: each system call fails but for those that write, wait for memory and end.
void EnterSandbox() {
  constexpr auto kNumber = static_cast<unsigned>(offsetof(seccomp_data, nr));
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    Fail("seccomp");
  }
}

void LimitFiles() {
  const rlimit none = {0, 0};
  if (setrlimit(RLIMIT_NOFILE, &none) != 0 || setrlimit(RLIMIT_NPROC, &none) != 0) Fail("setrlimit");
}

}  // namespace

bool DoBadEnding(std::string_view name, const std::string& word) {
  const int number = static_cast<int>(Number(word));
  if (name == "_Exit") std::_Exit(number);
  if (name == "ambush") Ambush(number);
  if (name == "together") LeaveTogether(number);
  if (name == "cancelled") {
    pthread_t thread;
    pthread_create(&thread, nullptr, &LeaveCancelled, reinterpret_cast<void*>(static_cast<std::size_t>(number)));
    pthread_join(thread, nullptr);
    std::puts("it was the thread that ended");
  } else if (name == "at-quick-exit") {
    std::at_quick_exit(&AllocateAndFree);
  } else if (name == "atexit-_exit") {
    g_status = number;
    std::atexit(&LeaveAtExit);
  } else if (name == "sandbox") {
    EnterSandbox();
  } else if (name == "limit") {
    LimitFiles();
  } else {
    return false;
  }
  return true;
}

}  // namespace victim

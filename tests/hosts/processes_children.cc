// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The victim's words that make processes, and those that end one.

#include <cuda_runtime_api.h>
#include <linux/sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "processes_host.h"

extern char** environ;

namespace victim {
namespace {

void Await(pid_t child) {
  if (child < 0) Fail("making a child");
  int status = 0;
  if (waitpid(child, &status, __WALL) != child) Fail("waitpid");
  if (WIFEXITED(status)) std::printf("child exit %d\n", WEXITSTATUS(status));
  if (WIFSIGNALED(status)) std::printf("child signal %d\n", WTERMSIG(status));
  std::fflush(stdout);
}

[[noreturn]] void LiveAsChild(const Words& block) {
  Do(block);
  std::exit(0);
}

// No fork handler runs, and the C library still believes itself in the parent.
pid_t RawClone() { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }

pid_t RawClone3() {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  return static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
}

// The parent's memory and a process of its own, as vfork makes it, but running beside the parent.
pid_t SharingClone(const Words& block) {
  static char stack[1 << 20];
  const auto enter = [](void* words) {
    Do(*static_cast<const Words*>(words));
    _exit(0);
    return 0;
  };
  return clone(enter, stack + sizeof stack, CLONE_VM | SIGCHLD, const_cast<Words*>(&block));
}

std::vector<char*> Arguments(const Words& block) {
  static const Words* kept;
  kept = new Words(block);
  std::vector<char*> arguments = {const_cast<char*>("processes_host")};
  for (const std::string& word : *kept) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

pid_t Spawn(const Words& block) {
  pid_t child = -1;
  const std::vector<char*> arguments = Arguments(block);
  const int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ);
  return error == 0 ? child : -1;
}

pid_t VforkTrue() {
  const pid_t child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(127);
  }
  return child;
}

// As daemon(3), with all descriptors closed and by two forks: the last child belongs to nobody.
void Daemon(const Words& block) {
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    for (int file = 0; file < 4096; ++file) close(file);
    LiveAsChild(block);
  }
  Await(child);
}

void ExitAgain() { std::exit(static_cast<int>(5)); }

void FreeAtExit() {
  void* memory = nullptr;
  if (cudaMalloc(&memory, 4096) == cudaSuccess) cudaFree(memory);
}

void WriteNowhere() {
  volatile std::uintptr_t nowhere = 8;
  *reinterpret_cast<volatile int*>(nowhere) = 1;
}

void Catch(int signal) { std::exit(100 + signal); }

}  // namespace

bool DoChild(std::string_view name, const std::string&, const Words& block) {
  pid_t child = 0;
  if (name == "fork") {
    child = fork();
  } else if (name == "clone") {
    child = RawClone();
  } else if (name == "clone3") {
    child = RawClone3();
  } else if (name == "shared") {
    child = SharingClone(block);
  } else if (name == "spawn") {
    child = Spawn(block);
  } else if (name == "vfork") {
    child = VforkTrue();
  } else if (name == "daemon") {
    Daemon(block);
    return true;
  } else if (name == "exec") {
    execv("/proc/self/exe", Arguments(block).data());
    Fail("execv");
  } else {
    return false;
  }
  if (child == 0) LiveAsChild(block);
  Await(child);
  return true;
}

bool DoEnding(std::string_view name, const std::string& word) {
  const int number = static_cast<int>(Number(word));
  if (name == "exit") std::exit(number);
  if (name == "_exit") _exit(number);
  if (name == "quick_exit") std::quick_exit(number);
  if (name == "abort") std::abort();
  if (name == "segv") WriteNowhere();
  if (name == "kill") {
    kill(getpid(), number);
    for (;;) pause();
  }
  if (name == "catch") {
    std::signal(number, &Catch);
  } else if (name == "atexit-exit") {
    std::atexit(&ExitAgain);
  } else if (name == "atexit-cuda") {
    std::atexit(&FreeAtExit);
  } else if (name == "stop") {
    kill(getpid(), SIGSTOP);
  } else {
    return false;
  }
  return true;
}

}  // namespace victim

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

std::atomic<pid_t> g_child{0};
std::atomic<int> g_witness{-1};  // where the witness writes what reached it

// A signal that was sent to the whole process group has reached the child already. Neither siginfo_t nor /proc tells it
// from one that was sent to us alone, so a second process of the group, which does nothing else, says what it received.
struct Seen {
  int32_t signal = 0;
  int64_t time_ms = 0;
};

constexpr int64_t kSameMs = 100;  // between the deliveries of one signal to two processes of a group

int64_t NowMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Runs in the witness; the forwarded signals are blocked.
[[noreturn]] void Witness(const sigset_t& signals, int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // it ended before
  dup2(output, 0);
  syscall(SYS_close_range, 1u, ~0u, 0u);  // nobody waits for the end of a pipe that only the witness holds
  for (;;) {
    Seen seen;
    seen.signal = sigwaitinfo(&signals, nullptr);
    seen.time_ms = NowMs();
    if (seen.signal > 0 && write(0, &seen, sizeof(seen)) < 0) _exit(0);
  }
}

// Whether `signal`, which came now, was sent to the whole group. Called in a signal's handler.
bool ReachedTheGroup(int signal) {
  const int witness = g_witness.load(std::memory_order_relaxed);
  const int64_t now = NowMs();
  pollfd input{witness, POLLIN, 0};
  for (int64_t left = kSameMs; witness >= 0 && left > 0; left = now + kSameMs - NowMs()) {
    Seen seen;
    if (poll(&input, 1, static_cast<int>(left)) <= 0) continue;
    if (read(witness, &seen, sizeof(seen)) != sizeof(seen)) return false;
    if (seen.signal == signal && seen.time_ms >= now - kSameMs) return true;
  }
  return false;
}

// SI_KERNEL: the terminal sent it, to the whole foreground group and so to the child as well.
void Forward(int signal, siginfo_t* info, void*) {
  const int before = errno;
  const pid_t child = g_child.load(std::memory_order_relaxed);
  if (child > 0 && info->si_code != SI_KERNEL && !ReachedTheGroup(signal)) kill(child, signal);
  errno = before;
}

// The process that says what reached the group; 0 where none could be had, and signals are forwarded as they come.
pid_t StartWitness(const sigset_t& signals) {
  int output[2];
  const pid_t parent = getpid();
  if (pipe2(output, O_CLOEXEC) != 0) return 0;
  const pid_t witness = fork();
  if (witness == 0) Witness(signals, output[1], parent);
  close(output[1]);
  if (witness < 0) close(output[0]);
  g_witness.store(witness < 0 ? -1 : output[0], std::memory_order_relaxed);
  return witness < 0 ? 0 : witness;
}

void EndWitness(pid_t witness) {
  if (witness == 0) return;
  kill(witness, SIGKILL);
  waitpid(witness, nullptr, 0);
  close(g_witness.exchange(-1, std::memory_order_relaxed));
}

// What is ignored (nohup) stays ignored, here and in the child.
void InstallForwarding() {
  for (const int signal : kForwarded) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_sigaction = Forward;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

[[noreturn]] void ExecInChild(const std::vector<std::string>& command_line, const sigset_t& mask, int error_pipe) {
  std::vector<char*> arguments;
  for (const std::string& argument : command_line) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof(error));
  _exit(127);
}

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

absl::Status NotStarted(const std::string& command, int error) {
  const std::string what =
      absl::StrCat("cannot start ", command, ": ", strerror(error), ". Check the name and its permissions.");
  return error == ENOENT ? absl::NotFoundError(what) : absl::PermissionDeniedError(what);
}

}  // namespace

absl::StatusOr<int> RunChild(const std::vector<std::string>& command_line) {
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) return NotStarted(command_line.front(), errno);
  sigset_t forwarded, before;
  sigemptyset(&forwarded);
  for (const int signal : kForwarded) sigaddset(&forwarded, signal);
  sigprocmask(SIG_BLOCK, &forwarded, &before);  // none is lost between fork and the handlers
  const pid_t child = fork();
  if (child == 0) ExecInChild(command_line, before, error_pipe[1]);
  const int fork_error = errno;
  close(error_pipe[1]);
  const pid_t witness = child > 0 ? StartWitness(forwarded) : 0;
  if (child > 0) {
    g_child.store(child, std::memory_order_relaxed);
    InstallForwarding();
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) {
    close(error_pipe[0]);
    return NotStarted(command_line.front(), fork_error);
  }
  int exec_error = 0;
  ssize_t got = 0;
  while ((got = read(error_pipe[0], &exec_error, sizeof(exec_error))) < 0 && errno == EINTR) {
  }
  close(error_pipe[0]);
  const int status = WaitFor(child);
  g_child.store(0, std::memory_order_relaxed);
  EndWitness(witness);
  if (got == sizeof(exec_error)) return NotStarted(command_line.front(), exec_error);
  return status;
}

int EndLike(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  ::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  raise(signal);
  return 128 + signal;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

std::atomic<pid_t> g_child{0};

// SI_KERNEL: the terminal sent it, to the whole foreground group and so to the child as well.
void Forward(int signal, siginfo_t* info, void*) {
  const int before = errno;
  const pid_t child = g_child.load(std::memory_order_relaxed);
  if (child > 0 && info->si_code != SI_KERNEL) kill(child, signal);
  errno = before;
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

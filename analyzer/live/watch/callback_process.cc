// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/callback_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format.h"

namespace gpumem {
namespace {

// A file in memory with the text, read from its beginning; -1: none to be had.
int FileOf(const std::string& text) {
  const int file = memfd_create("gpumemshim-callback", MFD_CLOEXEC);
  if (file < 0) return -1;
  const bool is_whole = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (is_whole && lseek(file, 0, SEEK_SET) == 0) return file;
  close(file);
  return -1;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Ours without the recorder's preload: a command that is called is none of the program's.
std::vector<std::string> Environment(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** each = environ; *each != nullptr; ++each) {
    if (std::strncmp(*each, "LD_PRELOAD=", 11) != 0) all.emplace_back(*each);
  }
  return all;
}

// In a group of its own, with the signals that a shell expects.
int Spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment, int input, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  sigset_t none, usual;
  sigemptyset(&none);
  sigfillset(&usual);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawnp(pid, command[0].c_str(), &actions, &attributes, Pointers(command).data(),
                                 Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

void CallbackProcess::Start(const std::vector<std::string>& command, const std::vector<std::string>& variables,
                            const std::string& input, uint64_t now_ns, uint64_t deadline_ns) {
  started_ns_ = now_ns;
  deadline_ns_ = deadline_ns;
  const int file = FileOf(input);
  const int error = file < 0 ? errno : Spawn(command, Environment(variables), file, &pid_);
  if (file >= 0) close(file);
  if (error == 0) return;
  pid_ = 0;
  problem_ = absl::StrCat("could not be started: ", command[0], ": ", strerror(error));
}

std::optional<CallbackEnd> CallbackProcess::Poll(uint64_t now_ns) {
  if (!problem_.empty()) return CallbackEnd{false, std::exchange(problem_, "")};
  if (pid_ == 0) return std::nullopt;
  int status = 0;
  const pid_t waited = waitpid(pid_, &status, WNOHANG);
  if (waited == 0 && now_ns < deadline_ns_) return std::nullopt;
  if (waited == 0) {
    Kill();
    return CallbackEnd{false, absl::StrCat("ran longer than ", FormatTime(deadline_ns_ - started_ns_), ", killed")};
  }
  pid_ = 0;
  if (waited < 0) return CallbackEnd{false, "ended, and nobody knows how"};
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return CallbackEnd{false, absl::StrCat("crashed: ", strsignal(number), " (signal ", number, ")")};
  }
  const int code = WEXITSTATUS(status);
  return CallbackEnd{code == 0, absl::StrCat("exited with code ", code)};
}

void CallbackProcess::Kill() {
  if (pid_ == 0) return;
  // The leader is not reaped before, so the group's number is nobody else's.
  kill(-pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  pid_ = 0;
}

}  // namespace gpumem

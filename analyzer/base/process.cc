// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace gpumem {

std::string ProcessStatus(int pid, absl::string_view name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  const std::string begin = absl::StrCat(name, ":");
  std::string line;
  while (std::getline(file, line)) {
    if (!absl::StartsWith(line, begin)) continue;
    const size_t at = line.find_first_not_of(" \t", begin.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

bool HasEnded(int pid) {
  const std::string state = ProcessStatus(pid, "State");
  if (state.empty()) return true;
  if (!absl::StartsWith(state, "Z") && !absl::StartsWith(state, "X")) return false;
  int threads = 0;  // the main thread may end before the others
  return !absl::SimpleAtoi(ProcessStatus(pid, "Threads"), &threads) || threads <= 1;
}

int ParentOf(int pid) {
  int parent = 0;
  return absl::SimpleAtoi(ProcessStatus(pid, "PPid"), &parent) ? parent : 0;
}

bool IsAtOrBelow(int pid, int ancestor) {
  constexpr int kDeepest = 64;
  for (int depth = 0; pid > 1 && pid != ancestor && depth < kDeepest; ++depth) pid = ParentOf(pid);
  return pid == ancestor;
}

namespace {

constexpr size_t kMostErrors = size_t{64} << 10;
constexpr int kLowPriority = 10;

// Both ends close with their owner, and in what is started.
struct Pipe {
  Pipe() { is_open = pipe2(ends, O_CLOEXEC) == 0; }
  ~Pipe() {
    Close(0);
    Close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void Close(int end) {
    if (is_open && ends[end] >= 0) close(ends[end]);
    ends[end] = -1;
  }

  int ends[2] = {-1, -1};
  bool is_open = false;
};

// Appends what is there; false at the end.
bool ReadSome(int from, std::string* to) {
  char buffer[size_t{64} << 10];
  const ssize_t got = read(from, buffer, sizeof(buffer));
  if (got > 0) to->append(buffer, static_cast<size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

// Until both are at their end. False: there was more than `most_bytes`.
bool ReadBoth(int output, int errors, size_t most_bytes, ChildOutput::Result* result) {
  pollfd waits[] = {{output, POLLIN, 0}, {errors, POLLIN, 0}};
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    if (poll(waits, 2, -1) < 0 && errno != EINTR) break;
    if (waits[0].revents != 0 && !ReadSome(output, &result->output)) waits[0].fd = -1;
    if (waits[1].revents != 0 && !ReadSome(errors, &result->errors)) waits[1].fd = -1;
    if (result->errors.size() > kMostErrors) result->errors.erase(0, result->errors.size() - kMostErrors);
    if (result->output.size() > most_bytes) return false;
    waits[0].revents = waits[1].revents = 0;
  }
  return true;
}

}  // namespace

absl::StatusOr<pid_t> ChildOutput::Start(const std::vector<std::string>& command, int output, int errors) {
  std::vector<char*> arguments;
  for (const std::string& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  const std::lock_guard lock(mutex_);
  int error = ECANCELED;
  pid_t pid = 0;
  if (!is_cancelled_) error = posix_spawn(&pid, command[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ECANCELED) return absl::CancelledError("cancelled");
  if (error != 0) return absl::InternalError(absl::StrCat("cannot start ", command[0], ": ", strerror(error)));
  setpriority(PRIO_PROCESS, static_cast<id_t>(pid), kLowPriority);
  pid_ = pid;
  return pid;
}

absl::StatusOr<ChildOutput::Result> ChildOutput::Run(const std::vector<std::string>& command, size_t most_bytes) {
  Pipe output, errors;
  if (!output.is_open || !errors.is_open)
    return absl::ResourceExhaustedError(absl::StrCat("cannot make a pipe: ", strerror(errno)));
  GPUMEM_ASSIGN_OR_RETURN(const pid_t pid, Start(command, output.ends[1], errors.ends[1]));
  output.Close(1);
  errors.Close(1);
  Result result;
  const bool fits = ReadBoth(output.ends[0], errors.ends[0], most_bytes, &result);
  if (!fits) kill(pid, SIGKILL);
  int status = 0;
  {
    // It stays a zombie until then, so that Cancel never kills another process of this number.
    siginfo_t ended{};
    while (waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) continue;
    const std::lock_guard lock(mutex_);
    pid_ = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  }
  if (!fits) return absl::ResourceExhaustedError(absl::StrCat(command[0], " prints more than ", most_bytes, " bytes"));
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

void ChildOutput::Cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  if (pid_ != 0) kill(pid_, SIGKILL);
}

absl::StatusOr<LoaderName> NameForLoader(const std::string& library) {
  if (library.find_first_of(": ") == std::string::npos) return LoaderName{library, ""};
  const size_t slash = library.rfind('/');
  const LoaderName name{library.substr(slash + 1), library.substr(0, slash)};
  if (slash == std::string::npos || name.preload.find_first_of(": ") != std::string::npos ||
      name.folder.find_first_of(":;$") != std::string::npos) {
    return absl::UnavailableError(absl::StrCat(library,
                                               " has a character in its path that the loader's variables cannot hold. "
                                               "Copy it elsewhere and set GPUMEMSHIM_LIBRARY."));
  }
  return name;
}

std::string LibraryPathWith(const char* before, const std::string& folder) {
  return before == nullptr || *before == '\0' ? folder : absl::StrCat(before, ":", folder);
}

}  // namespace gpumem

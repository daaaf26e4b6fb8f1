// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/find_torch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "attach/preload.h"
#include "ledger/load/own_trace.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

// Prints version and CUDA version of the torch that would be imported; nothing where there is none. The working
// directory is not a place to find one: it may be somebody else's folder.
constexpr char kAsk[] =
    "import sys\n"
    "sys.path = [p for p in sys.path if p not in ('', '.')]\n"
    "import importlib.util as u\n"
    "s = u.find_spec('torch')\n"
    "v = {}\n"
    "exec(open(s.submodule_search_locations[0] + '/version.py').read(), v)\n"
    "print('gpumemshim', v['__version__'], v.get('cuda'))\n";

// Standard output of a program whose errors nobody reads; "" where it could not be started.
std::string OutputOf(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t got; pid > 0 && (got = read(ends[0], buffer, sizeof buffer)) > 0 && text.size() < 4096;)
    text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  if (pid > 0) waitpid(pid, &status, 0);
  return text;
}

bool LooksLikePython(const std::string& path) { return absl::StartsWith(fs::path(path).filename().string(), "python"); }

struct Found {
  std::string version, cuda;  // cuda "None": a PyTorch without it
};

std::optional<Found> Ask(const std::string& python) {
  for (const absl::string_view line : absl::StrSplit(OutputOf({python, "-c", kAsk}), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() == 3 && words[0] == "gpumemshim") return Found{words[1], words[2]};
  }
  return std::nullopt;
}

// What a trace names is run only if it belongs to root or to this user, and nobody else may write it.
bool MayBeRun(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return false;
  return (file.st_uid == 0 || file.st_uid == geteuid()) && (file.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::vector<std::string> Candidates(const std::string& trace, const ProcessInfo& process) {
  std::vector<std::string> all;
  if (const char* named = std::getenv("GPUMEMSHIM_INTERPRETER"); named != nullptr && *named != '\0')
    all.emplace_back(named);
  const bool is_of_here = IsOwnTrace(trace, process);
  if (is_of_here && !process.command_line.empty() && LooksLikePython(process.command_line.front())) {
    const fs::path recorded = fs::path(process.working_directory) / process.command_line.front();
    if (absl::StrContains(process.command_line.front(), '/') && MayBeRun(recorded)) all.push_back(recorded.string());
  }
  if (const char* folder = std::getenv("VIRTUAL_ENV"); folder != nullptr && *folder != '\0')
    all.push_back((fs::path(folder) / "bin/python").string());
  all.emplace_back("python3");
  if (is_of_here && LooksLikePython(process.executable) && MayBeRun(process.executable))
    all.push_back(process.executable);
  return all;
}

}  // namespace

absl::StatusOr<TorchPython> FindTorch(const std::string& named, const std::string& trace, const ProcessInfo& process) {
  if (!named.empty()) {
    const std::optional<Found> found = Ask(named);
    if (found.has_value() && found->cuda != "None") return TorchPython{named, found->version};
    return absl::InvalidArgumentError(absl::StrCat(
        "--torch ", named,
        found.has_value()
            ? absl::StrCat(" has a PyTorch without CUDA (", found->version, "). Name a Python with one that has it.")
            : " is not a Python that has PyTorch. Like this: --torch ~/.venv/bin/python"));
  }
  std::string without_cuda;
  for (const std::string& python : Candidates(trace, process)) {
    const std::optional<Found> found = Ask(python);
    if (!found.has_value()) continue;
    if (found->cuda != "None") return TorchPython{python, found->version};
    without_cuda = absl::StrCat(" (", python, " has ", found->version, ", which has no CUDA)");
  }
  return absl::NotFoundError(absl::StrCat(
      "no Python with PyTorch found", without_cuda,
      ", and the replay runs PyTorch's own allocator. Name one: --torch ~/.venv/bin/python; `pip install --no-deps "
      "torch` into a virtual environment suffices, no GPU is needed."));
}

}  // namespace gpumem::plan

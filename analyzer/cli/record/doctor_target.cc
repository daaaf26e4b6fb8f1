// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim doctor` says about a program or a running process (doctor_checks.h).

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "attach/elf_file.h"
#include "attach/injector.h"
#include "attach/preload.h"
#include "base/format.h"
#include "cli/record/doctor_checks.h"
#include "cli/trace_options.h"
#include "live/ctl_client.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

constexpr int kOldestPythonMinor = 9, kNewestPythonMinor = 15;  // whose frames the recorder reads

bool IsPythonName(const std::string& name) {
  return absl::StartsWith(name, "python") || absl::StartsWith(name, "pypy");
}

// The interpreter behind a command: itself, or the one that its "#!" line names (torchrun, an entry script).
std::string PythonBehind(const std::string& program) {
  if (IsPythonName(fs::path(program).filename().string())) return program;
  const absl::StatusOr<ElfFile> elf = ReadElfFile(program);
  if (!elf.ok() || elf->script_interpreter.empty()) return "";
  return IsPythonName(fs::path(elf->script_interpreter).filename().string()) ? elf->script_interpreter : "";
}

std::string OutputOf(const std::string& shell_command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(shell_command.c_str(), "re"), pclose);
  if (pipe == nullptr) return "";
  char text[256];
  const size_t length = fread(text, 1, sizeof(text), pipe.get());
  return std::string(absl::StripAsciiWhitespace(absl::string_view(text, length)));
}

struct PythonBuild {
  std::string implementation;
  int major = 0, minor = 0;
  std::string level;  // "alpha", "beta", "candidate" or "final"
  int free_threaded = 0, trace_refs = 0;
};

// Why the recorder will not read the frames of such an interpreter; "" where it does. The recorder decides for itself.
std::string WhyUnread(const PythonBuild& build) {
  if (build.implementation != "cpython") return "not CPython";
  if (build.major != 3 || build.minor < kOldestPythonMinor || build.minor > kNewestPythonMinor)
    return absl::StrCat("only CPython 3.", kOldestPythonMinor, " to 3.", kNewestPythonMinor, " are known");
  if (build.free_threaded != 0) return "a free-threaded build";
  if (build.trace_refs != 0) return "built with Py_TRACE_REFS";
  if (build.level == "alpha" || build.level == "beta") return "a pre-release";
  return "";
}

Finding JudgePython(const PythonBuild& build, const std::string& where) {
  const std::string found = absl::StrCat(build.implementation, " ", build.major, ".", build.minor, " (", where, ")");
  const std::string why = WhyUnread(build);
  if (why.empty()) return {"python", Health::kOk, found, ""};
  return {"python", Health::kWarning, absl::StrCat(found, ": stacks will lack Python frames, ", why),
          "use a released CPython for Python lines in stacks; all else is recorded"};
}

// Asks the interpreter itself, without site packages and the user's settings.
Finding CheckPython(const std::string& python) {
  constexpr absl::string_view kQuestion =
      "import sys, sysconfig; print(sys.implementation.name, *sys.version_info[:4], "
      "int(bool(sysconfig.get_config_var(\"Py_GIL_DISABLED\"))), int(hasattr(sys, \"getobjects\")))";
  const std::string answer = OutputOf(absl::StrCat("env -u LD_PRELOAD ", ShellQuoted(python), " -I -S -c ",
                                                   ShellQuoted(std::string(kQuestion)), " 2>/dev/null"));
  const std::vector<std::string> parts = absl::StrSplit(answer, ' ');
  PythonBuild build;
  if (parts.size() != 7 || !absl::SimpleAtoi(parts[1], &build.major) || !absl::SimpleAtoi(parts[2], &build.minor) ||
      !absl::SimpleAtoi(parts[5], &build.free_threaded) || !absl::SimpleAtoi(parts[6], &build.trace_refs)) {
    return {"python", Health::kWarning, absl::StrCat(python, " did not tell its version"), "check that it starts"};
  }
  build.implementation = parts[0];
  build.level = parts[4];
  return JudgePython(build, python);
}

std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(1 << 20, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

// The first mapped file whose name starts with `prefix`, "" where there is none.
std::string MappedFile(const std::string& maps, absl::string_view prefix) {
  for (const absl::string_view line : absl::StrSplit(maps, '\n')) {
    const size_t slash = line.find('/');
    if (slash == absl::string_view::npos) continue;
    std::string path(line.substr(slash));
    if (absl::StartsWith(fs::path(path).filename().string(), prefix)) return path;
  }
  return "";
}

std::string EnvironmentOf(const std::string& environment, absl::string_view name) {
  for (const absl::string_view entry : absl::StrSplit(environment, '\0')) {
    if (absl::StartsWith(entry, absl::StrCat(name, "="))) return std::string(entry.substr(name.size() + 1));
  }
  return "";
}

Finding CheckTraced(pid_t pid, const std::string& maps) {
  const std::string library = MappedFile(maps, "libgpumemshim");
  if (!library.empty()) return {"traced", Health::kOk, absl::StrCat(library, " is loaded"), ""};
  constexpr absl::string_view kNot = "libgpumemshim.so is not loaded in it";
  const absl::StatusOr<std::string> shim = FindShimLibrary();
  const absl::Status reachable = shim.ok() ? CheckTarget(pid, *shim) : shim.status();
  if (reachable.ok()) {
    return {"traced", Health::kFailure, absl::StrCat(kNot, "; nothing is known to stand against attaching"),
            absl::StrCat("gpumemshim attach ", pid)};
  }
  return {"traced", Health::kFailure, absl::StrCat(kNot, ", and it cannot be attached to: ", reachable.message()),
          "see above, or start it again with: gpumemshim run -- COMMAND"};
}

Finding CheckCudaOf(const std::string& maps) {
  const std::string driver = MappedFile(maps, "libcuda.so");
  if (driver.empty())
    return {"cuda", Health::kWarning, "libcuda.so.1 is not loaded in it (yet): nothing to record",
            "look again when it uses the GPU"};
  const std::string torch = MappedFile(maps, "libc10_cuda");
  const char* simulated = absl::StrContains(driver, "simcuda") ? ": simulated, no GPU" : "";
  return {"cuda", Health::kOk,
          absl::StrCat(driver, simulated, torch.empty() ? "; no PyTorch" : absl::StrCat("; PyTorch: ", torch)), ""};
}

// The trace that the process writes; "" where none is open in it.
std::string TraceOf(pid_t pid) {
  std::error_code error;
  for (fs::directory_iterator entry(absl::StrCat("/proc/", pid, "/fd"), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const std::string target = fs::read_symlink(entry->path(), ignored).string();
    if (absl::EndsWith(target, ".gmtrace")) return target;
  }
  return "";
}

Finding CheckTraceOf(const std::string& trace) {
  if (!trace.empty()) return {"trace", Health::kOk, absl::StrCat("writes ", trace), ""};
  return {"trace", Health::kWarning, "no *.gmtrace is open in it", "it is made at the first CUDA allocation"};
}

// How often a file whose name starts with `prefix` is mapped from its beginning: once for each time that it was loaded.
int TimesLoaded(const std::string& maps, absl::string_view prefix) {
  int times = 0;
  for (const absl::string_view line : absl::StrSplit(maps, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (fields.size() < 6 || fields[2].find_first_not_of('0') != absl::string_view::npos) continue;
    if (absl::StartsWith(fs::path(std::string(fields[5])).filename().string(), prefix)) ++times;
  }
  return times;
}

// It came when the program was under way.
bool WasInjected(const std::string& environment) {
  return absl::StrContains(EnvironmentOf(environment, "CUDA_INJECTION64_PATH"), "libgpumemshim") &&
         !absl::StrContains(EnvironmentOf(environment, "LD_PRELOAD"), "libgpumemshim");
}

// Whether it can be asked.
Finding CheckControlOf(pid_t pid) {
  const absl::StatusOr<ControlAnswer> answer = AskProcess(pid, "status");
  const std::string why(answer.status().message());
  if (answer.ok()) return {"control", Health::kOk, absl::StrCat("answers gpumemshim ctl ", pid), ""};
  if (absl::StrContains(why, "GPUMEMSHIM_CONTROL=0")) return {"control", Health::kOk, why, ""};
  return {"control", Health::kWarning, why, "docs/commands/ctl.md says where sockets are"};
}

// Calls that the library in the process cannot see: by its own word, by what is loaded, and by how it came there.
Finding CheckUnseen(pid_t pid, const std::string& maps, const std::string& environment) {
  std::vector<std::string> known;
  std::string next = "load it in the ordinary way (no RTLD_DEEPBIND, no dlmopen, one libcuda); docs/coverage.md";
  const absl::StatusOr<ControlAnswer> status = AskProcess(pid, "status");
  if (status.ok() && !status->Text("unseen").empty()) {
    known.push_back(status->Text("unseen"));
  } else if (const int times = TimesLoaded(maps, "libcuda.so"); times > 1) {
    known.push_back(
        absl::StrCat("the driver is loaded ", times, " times: what is called in all but one of them is not seen"));
  }
  if (WasInjected(environment)) {
    known.push_back(
        "loaded by CUDA_INJECTION64_PATH: what is called through function pointers that were kept on the heap before, "
        "or by libraries that were loaded later, is not seen");
    next = "start it with: gpumemshim run -- COMMAND";
  }
  if (known.empty()) return {"seen", Health::kOk, "no calls of CUDA are known to go past the recorder", ""};
  return {"seen", Health::kWarning, absl::StrJoin(known, "; "), next};
}

}  // namespace

std::vector<Finding> CheckCommand(const std::vector<std::string>& command_line) {
  std::vector<Finding> findings;
  const std::string program = FindProgram(command_line.front());
  if (program.empty())
    return {{"program", Health::kFailure, absl::StrCat(command_line.front(), " is not found or not executable"),
             "check the name and PATH"}};
  for (const std::string& obstacle : PreloadObstacles(command_line)) {
    const size_t end = obstacle.rfind(". ");  // what stands in the way, then what to do
    findings.push_back({"program", Health::kFailure, obstacle.substr(0, end),
                        end == std::string::npos ? "see above" : obstacle.substr(end + 2)});
  }
  if (findings.empty())
    findings.push_back({"program", Health::kOk, absl::StrCat(program, ": a preload reaches it"), ""});
  const std::string python = PythonBehind(program);
  if (!python.empty()) findings.push_back(CheckPython(python));
  return findings;
}

std::vector<Finding> CheckProcess(pid_t pid) {
  const std::string folder = absl::StrCat("/proc/", pid);
  if (kill(pid, 0) != 0 && errno == ESRCH)
    return {{"process", Health::kFailure, absl::StrCat("there is no process ", pid),
             "check the number (pgrep -af python)"}};
  const std::string maps = ReadSmallFile(absl::StrCat(folder, "/maps"));
  if (maps.empty()) {
    const absl::StatusOr<ControlAnswer> answer = AskProcess(pid, "status");
    const absl::Status reachable = CheckTarget(pid, FindShimLibrary().value_or(""));
    std::string found = absl::StrCat("process ", pid, " may not be looked at: ", strerror(EACCES));
    if (absl::IsPermissionDenied(answer.status())) {
      absl::StrAppend(&found, "; ", answer.status().message());
    } else if (!reachable.ok()) {
      absl::StrAppend(&found, "; ", reachable.message());
    }
    return {{"process", Health::kFailure, found, "ask as its user or as root (sudo), inside its container"}};
  }
  std::vector<Finding> findings = {CheckTraced(pid, maps), CheckCudaOf(maps)};
  const std::string environment = ReadSmallFile(absl::StrCat(folder, "/environ"));
  if (findings[0].health == Health::kOk) {
    const std::string trace = TraceOf(pid);
    findings.push_back(CheckTraceOf(trace));
    if (!EnvironmentOf(environment, "GPUMEMSHIM_CUPTI").empty()) findings.push_back(CheckCuptiOf(trace));
    findings.push_back(CheckControlOf(pid));
    findings.push_back(CheckUnseen(pid, maps, environment));
  }
  findings.push_back(CheckPreload(EnvironmentOf(environment, "LD_PRELOAD")));
  std::error_code error;
  const std::string program = fs::read_symlink(absl::StrCat(folder, "/exe"), error).string();
  if (!error && !PythonBehind(program).empty()) findings.push_back(CheckPython(program));
  return findings;
}

}  // namespace gpumem

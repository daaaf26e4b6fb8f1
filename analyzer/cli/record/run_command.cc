// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <glob.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "attach/child.h"
#include "attach/preload.h"
#include "base/format.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "ledger/load/find_traces.h"
#include "replay/process_info.h"
#include "trace/reader.h"
#include "trace/ring/ring_leftovers.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

constexpr int kExitNotFound = 127, kExitNotExecutable = 126;  // as shells say it
constexpr uint64_t kClockSlackNs = 20'000'000;                // file times come from a coarser clock

uint64_t RealtimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

bool IsDirectory(const std::string& path) {
  std::error_code ignored;
  return absl::EndsWith(path, "/") || fs::is_directory(path, ignored);
}

// The library's pattern as one for glob(3): a field may be anything, and a name that was taken got a number before its
// ending.
std::string GlobPattern(const std::string& pattern) {
  std::string glob;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '%' && i + 1 < pattern.size()) {
      glob += pattern[++i] == '%' ? '%' : '*';
      continue;
    }
    if (absl::StrContains("*?[]\\", absl::string_view(&c, 1))) glob += '\\';
    glob += c;
  }
  if (IsDirectory(pattern)) return absl::StrCat(glob, absl::EndsWith(glob, "/") ? "" : "/", "*.gmtrace");
  const size_t ending = glob.rfind(".gmtrace");
  return ending == std::string::npos ? absl::StrCat(glob, "*") : absl::StrCat(glob.substr(0, ending), "*.gmtrace");
}

// The files of this glob(3) that were written to after `since_ns`, newest first.
std::vector<std::string> AllWrittenSince(const std::string& pattern, uint64_t since_ns) {
  glob_t found{};
  std::vector<std::pair<uint64_t, std::string>> files;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat status {};
      if (stat(found.gl_pathv[i], &status) != 0 || !S_ISREG(status.st_mode)) continue;
      const uint64_t time_ns =
          static_cast<uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(status.st_mtim.tv_nsec);
      if (time_ns >= since_ns - kClockSlackNs) files.emplace_back(time_ns, found.gl_pathv[i]);
    }
  }
  globfree(&found);
  std::stable_sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> paths;
  for (auto& [time_ns, path] : files) paths.push_back(std::move(path));
  return paths;
}

std::string WrittenSince(const std::string& pattern, uint64_t since_ns) {
  const std::vector<std::string> paths = AllWrittenSince(pattern, since_ns);
  return paths.empty() ? "" : paths.front();
}

// The newest trace, or, where ranks keep summaries alone, the newest of those.
std::string KeptSince(const std::string& pattern, uint64_t since_ns) {
  const std::string glob = GlobPattern(pattern);
  const std::string trace = WrittenSince(glob, since_ns);
  return trace.empty() ? WrittenSince(absl::StrCat(glob, ".summary"), since_ns) : trace;
}

// "gpumemshim run -- train.py": a script that is no program.
std::string ScriptHint(const std::vector<std::string>& command) {
  if (!absl::EndsWith(command.front(), ".py")) return "";
  return absl::StrCat(" A Python script needs its interpreter: gpumemshim run -- python ",
                      ShellQuoted(command.front()));
}

// The ranks of one job among the traces written since then, each once.
size_t RanksSince(const std::string& pattern, uint64_t since_ns) {
  constexpr size_t kMost = 1024;
  std::set<int> ranks;
  for (const std::string& path : AllWrittenSince(pattern, since_ns)) {
    if (ranks.size() == kMost) break;
    absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
    if (!reader.ok() || reader->Next() != ItemType::kHeader) continue;
    if (const ProcessInfo process = ProcessInfoOf(reader->header()); process.rank >= 0) ranks.insert(process.rank);
  }
  return ranks.size();
}

class RunCommand final : public Command {
 public:
  absl::string_view name() const override { return "run"; }
  CommandPlace place() const override { return {CommandGroup::kRecord, 1}; }
  absl::string_view summary() const override { return "record an unmodified program"; }
  bool takes_traces() const override { return false; }
  absl::string_view arguments() const override { return "[FLAGS] -- COMMAND [ARGUMENT...]"; }
  absl::string_view help() const override {
    return R"(Starts COMMAND with libgpumemshim.so first in LD_PRELOAD. Signals reach the program, and its exit code
becomes gpumemshim's. If a signal kills the program, gpumemshim dies of the same one (128 + signal in a shell).
gpumemshim has exit codes of its own only if the program cannot be started: 127 not found, 126 not executable,
2 and 3 as for all commands. The library is taken from ../lib beside gpumemshim, or from GPUMEMSHIM_LIBRARY.

  gpumemshim run -- python train.py
  gpumemshim run -o run.gmtrace --force -- python train.py --epochs 3
  gpumemshim run --native full -- python train.py        C frames of interpreter and bindings too
  gpumemshim run -o 'traces/%n.%p.gmtrace' -- torchrun --nproc-per-node 8 train.py

In -o, %p is the process, %h the host, %r the rank, %j the job, %n the program; a folder gets the default names. Missing
folders are made.
)";
  }
  bool takes_command_line() const override { return true; }

  void AddFlags(Flags* flags) override {
    flags->Add("-o,--output", &output_, "where to write the trace (a file, a pattern or a folder)").Value("FILE");
    flags->Add("--force", &force_, "replace FILE if it exists");
    const Flag native = flags->Add("--native", &native_, "native frames of threads that run Python: cut, full or none")
                            .Value("WHICH")
                            .OneOf({"cut", "full", "none"});
    flags->Add("--no-native", &no_native_, "the same as --native none").Excludes(native);
    flags->Add("-q,--quiet", &quiet_, "no line at the end");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (arguments.empty()) {
      return absl::InvalidArgumentError("no command to run. Like this: gpumemshim run -- python train.py");
    }
    GPUMEM_ASSIGN_OR_RETURN(const std::string pattern, ChooseOutput());
    GPUMEM_RETURN_IF_ERROR(SetEnvironment(pattern));
    for (const std::string& obstacle : PreloadObstacles(arguments))
      console->Complain(absl::StrCat("warning: ", obstacle, "."));
    const uint64_t started_ns = RealtimeNs();
    const absl::StatusOr<int> status = RunChild(arguments);
    if (!status.ok()) {
      console->Complain(absl::StrCat(status.status().message(), ScriptHint(arguments)));
      return absl::IsNotFound(status.status()) ? kExitNotFound : kExitNotExecutable;
    }
    const std::string kept = KeptSince(pattern, started_ns);
    if (!kept.empty()) ClearOwnDeadRings(RingFolder());  // of killed children, whose launcher never used CUDA
    if (!quiet_) SayWhatIsThere(*status, kept, console);
    if (const size_t ranks = quiet_ ? 0 : RanksSince(GlobPattern(pattern), started_ns); ranks > 1)
      console->Complain(absl::StrCat(ranks, " ranks of one job: gpumemshim ranks ", FolderOf(kept), " compares them."));
    return EndLike(*status);
  }

 private:
  // -o, else GPUMEMSHIM_OUTPUT, else the folder that we are in (the program may change to another).
  absl::StatusOr<std::string> ChooseOutput() const {
    const char* set = std::getenv("GPUMEMSHIM_OUTPUT");
    std::string pattern = !output_.empty() ? output_ : set != nullptr ? set : "";
    std::error_code error;
    const fs::path here = fs::current_path(error);
    const bool folder = pattern.empty() || IsDirectory(pattern);
    pattern = (here / pattern).string();
    if (folder && !absl::EndsWith(pattern, "/")) pattern += '/';
    if (folder || output_.empty() || absl::StrContains(output_, "%")) return pattern;
    return FreePlace(pattern);
  }

  // Where the recorder may create the trace: it follows no link, and takes another name where one is taken.
  absl::StatusOr<std::string> FreePlace(const std::string& pattern) const {
    const OutputPlace place = FindOutputPlace(pattern);
    if (place.kind != OutputPlace::Kind::kNothing && place.kind != OutputPlace::Kind::kPlain) {
      return absl::InvalidArgumentError(
          absl::StrCat(output_, " ", place.why, ", so no trace can be recorded into it. Give another name with -o."));
    }
    const std::string free = place.is_link ? absl::StrReplaceAll(place.path, {{"%", "%%"}}) : pattern;
    if (place.kind == OutputPlace::Kind::kNothing) {
      GPUMEM_RETURN_IF_ERROR(CheckFolder(place.path));
      return free;
    }
    if (!force_) {
      return absl::InvalidArgumentError(absl::StrCat(output_, " exists. Give another name, or --force to replace it."));
    }
    if (RemovePlainFile(place.path)) return free;
    return absl::UnavailableError(
        absl::StrCat("cannot remove ", output_, ": ", strerror(errno), ". Give another name."));
  }

  static absl::Status CheckFolder(const std::string& path) {
    const std::string folder = fs::path(path).parent_path().string();
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write into ", folder, ": ", strerror(errno), ". Give another place with -o."));
  }

  absl::Status SetEnvironment(const std::string& pattern) {
    GPUMEM_RETURN_IF_ERROR(PreloadRecorder());
    setenv("GPUMEMSHIM_OUTPUT", pattern.c_str(), 1);
    if (no_native_) native_ = "none";
    if (!native_.empty()) setenv("GPUMEMSHIM_NATIVE", native_.c_str(), 1);
    if (quiet_) setenv("GPUMEMSHIM_QUIET", "1", 1);
    return absl::OkStatus();
  }

  // The library says itself what it recorded; here is what it cannot say.
  static void SayWhatIsThere(int status, const std::string& trace, Console* console) {
    if (trace.empty()) {
      console->Complain(absl::StrCat(
          "no trace was written: the program made no CUDA allocation, or could not be hooked. To find out: "
          "gpumemshim doctor -- COMMAND",
          WithoutGpuText()));
      if (WIFSIGNALED(status))
        console->Complain(
            "it was killed. If that was in its first moments: gpumemshim export trace /dev/shm/gpumemshim.*.ring");
    } else if (WIFSIGNALED(status)) {
      console->Complain(absl::StrCat("the program died of signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                                     "). Up to then: gpumemshim ",
                                     absl::EndsWith(trace, ".summary") ? "ranks " : "report ", ShellQuoted(trace)));
    }
  }

  static std::string FolderOf(const std::string& file) {
    std::error_code error;
    const fs::path folder = fs::path(file).parent_path(), here = fs::current_path(error);
    const fs::path relative = folder.lexically_relative(here);
    const bool is_below = !relative.empty() && *relative.begin() != "..";
    return ShellQuoted((is_below ? relative : folder).string());
  }

  std::string output_, native_;
  bool force_ = false, no_native_ = false, quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeRunCommand() { return std::make_unique<RunCommand>(); }

}  // namespace gpumem

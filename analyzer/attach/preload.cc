// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/preload.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "attach/elf_file.h"
#include "base/process.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
constexpr uint16_t kOurMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kOurMachine = EM_AARCH64;
#endif

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool IsExecutable(const std::string& path) { return IsFile(path) && access(path.c_str(), X_OK) == 0; }

// Programs that start the command in a place which our environment does not reach.
const char* LauncherObstacle(const std::string& name) {
  static const std::set<std::string> kElsewhere = {"docker", "podman",    "nerdctl",     "kubectl",
                                                   "ssh",    "apptainer", "singularity", "enroot"};
  if (name == "sudo" || name == "su" || name == "doas")
    return "drops LD_PRELOAD. Put gpumemshim run behind it: sudo gpumemshim run -- ...";
  if (kElsewhere.count(name) != 0)
    return "starts the program where this environment does not reach. Put gpumemshim run inside, in front of the "
           "program";
  return nullptr;
}

// AddressSanitizer as a shared library ends a program in which a preload comes before it, unless an option says not to.
// The recorder says so itself, where the program has no options of its own and the environment none against it.
bool IsEndedByAddressSanitizer(const ElfFile& elf) {
  const bool is_shared = std::any_of(elf.needed.begin(), elf.needed.end(), [](const std::string& name) {
    return absl::StartsWith(name, "libasan.so") || absl::StartsWith(name, "libclang_rt.asan");
  });
  if (!is_shared) return false;
  bool insists = elf.exported.count("__asan_default_options") != 0;
  const char* options = std::getenv("ASAN_OPTIONS");
  for (const absl::string_view option : absl::StrSplit(options == nullptr ? "" : options, absl::ByAnyChar(": ,"))) {
    if (absl::StartsWith(option, "verify_asan_link_order=")) insists = !absl::EndsWith(option, "=0");
  }
  return insists;
}

void CheckBinary(const std::string& path, int depth, std::vector<std::string>* obstacles) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0 && geteuid() != 0) {
    obstacles->push_back(
        absl::StrCat(path, " is set-uid or set-gid: the loader ignores LD_PRELOAD. Run a copy without that bit"));
  }
  const absl::StatusOr<ElfFile> elf = ReadElfFile(path);
  if (!elf.ok()) return;
  if (!elf->script_interpreter.empty() && depth < 4) return CheckBinary(elf->script_interpreter, depth + 1, obstacles);
  if (!elf->is_elf) return;
  if (!elf->is_elf64 || elf->machine != kOurMachine) {
    obstacles->push_back(absl::StrCat(
        path, " is built for another kind of machine than libgpumemshim.so: nothing will be recorded in it"));
  } else if (IsEndedByAddressSanitizer(*elf)) {
    obstacles->push_back(absl::StrCat(path,
                                      " is built with AddressSanitizer, whose options insist on its place before every "
                                      "preload: it will not start. Set ASAN_OPTIONS=verify_asan_link_order=0"));
  } else if (!elf->has_interpreter) {
    obstacles->push_back(absl::StrCat(path,
                                      " is linked statically: LD_PRELOAD has no effect on it (programs that it starts "
                                      "are reached). Link it dynamically"));
  }
}

}  // namespace

absl::StatusOr<std::string> FindShimLibrary() {
  if (const char* named = std::getenv("GPUMEMSHIM_LIBRARY"); named != nullptr && *named != '\0') {
    std::error_code error;
    if (IsFile(named)) return fs::canonical(named, error).string();
    return absl::NotFoundError(
        absl::StrCat("GPUMEMSHIM_LIBRARY names ", named, ", which is not a file. Correct or unset it."));
  }
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {folder / "../lib", folder, folder / "../lib/gpumemshim"}) {
    const fs::path library = place / "libgpumemshim.so";
    if (IsFile(library)) return fs::canonical(library, error).string();
  }
  return absl::NotFoundError(
      absl::StrCat("libgpumemshim.so is not in ", (folder / "../lib").lexically_normal().string(),
                   " nor beside gpumemshim. Name it: GPUMEMSHIM_LIBRARY=/path/to/libgpumemshim.so"));
}

std::string PreloadValue(const std::string& library, const char* before) {
  std::string value = library;
  if (before == nullptr) return value;
  for (const absl::string_view part : absl::StrSplit(before, absl::ByAnyChar(": "), absl::SkipEmpty())) {
    if (part != library) absl::StrAppend(&value, ":", part);
  }
  return value;
}

absl::Status PreloadRecorder() {
  GPUMEM_ASSIGN_OR_RETURN(const std::string library, FindShimLibrary());
  GPUMEM_ASSIGN_OR_RETURN(const LoaderName name, NameForLoader(library));
  setenv("LD_PRELOAD", PreloadValue(name.preload, std::getenv("LD_PRELOAD")).c_str(), 1);
  if (!name.folder.empty())
    setenv("LD_LIBRARY_PATH", LibraryPathWith(std::getenv("LD_LIBRARY_PATH"), name.folder).c_str(), 1);
  setenv("NVTX_INJECTION64_PATH", library.c_str(), 0);  // another tool that the user named goes first
  return absl::OkStatus();
}

std::string FindProgram(const std::string& command) {
  if (absl::StrContains(command, "/")) return IsExecutable(command) ? command : "";
  const char* path = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    const std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", command);
    if (IsExecutable(candidate)) return candidate;
  }
  return "";
}

std::vector<std::string> PreloadObstacles(const std::vector<std::string>& command_line) {
  std::vector<std::string> obstacles;
  const std::string program = FindProgram(command_line.front());
  if (program.empty()) return obstacles;
  if (const char* why = LauncherObstacle(fs::path(program).filename().string()))
    obstacles.push_back(absl::StrCat(program, " ", why));
  CheckBinary(program, 0, &obstacles);
  return obstacles;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/module_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file_output.h"

namespace gpumem {
namespace {

bool IsAskedFor() {
  const char* const urls = std::getenv("DEBUGINFOD_URLS");
  return urls != nullptr && *urls != '\0';
}

// The functions of libdebuginfod that are used, and one client for the whole process: it keeps connections open.
class Library {
 public:
  static const Library& Get() {
    static const Library* const library = new Library;
    return *library;
  }

  bool usable() const { return client_ != nullptr; }

  std::string Fetch(const std::string& build_id, DebugFileKind kind) const {
    const FindFunction find = kind == DebugFileKind::kExecutable ? find_executable_ : find_debug_info_;
    char* path = nullptr;
    const int descriptor = find(client_, reinterpret_cast<const unsigned char*>(build_id.data()),
                                static_cast<int>(build_id.size()), &path);
    std::string result;
    if (descriptor >= 0) {
      close(descriptor);
      if (path != nullptr) result = path;
    }
    std::free(path);
    return result;
  }

 private:
  using BeginFunction = void* (*)();
  using FindFunction = int (*)(void* client, const unsigned char* build_id, int size, char** path);

  Library() {
    void* const handle = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return;
    const auto begin = reinterpret_cast<BeginFunction>(dlsym(handle, "debuginfod_begin"));
    find_executable_ = reinterpret_cast<FindFunction>(dlsym(handle, "debuginfod_find_executable"));
    find_debug_info_ = reinterpret_cast<FindFunction>(dlsym(handle, "debuginfod_find_debuginfo"));
    if (begin != nullptr && find_executable_ != nullptr && find_debug_info_ != nullptr) client_ = begin();
  }

  FindFunction find_executable_ = nullptr, find_debug_info_ = nullptr;
  void* client_ = nullptr;
};

}  // namespace

bool DebuginfodIsOn() { return IsAskedFor() && Library::Get().usable(); }

std::string DebuginfodProblem() {
  if (!IsAskedFor() || Library::Get().usable()) return "";
  return "DEBUGINFOD_URLS is set, but libdebuginfod.so.1 cannot be loaded: install libdebuginfod1";
}

std::string FetchDebugFile(const std::string& build_id, DebugFileKind kind) {
  if (build_id.empty() || !DebuginfodIsOn()) return "";
  return Library::Get().Fetch(build_id, kind);
}

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxNamedFiles = 50'000;
constexpr int kDeepestFolder = 16;
constexpr char kDebugFolder[] = "/usr/lib/debug";

std::string Folder(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string BuildIdFile(const std::string& build_id, absl::string_view ending) {
  if (build_id.size() < 2) return "";
  const std::string hex = BuildIdText(build_id);
  return absl::StrCat(kDebugFolder, "/.build-id/", hex.substr(0, 2), "/", hex.substr(2), ending);
}

bool HasNoFile(const std::string& path) {
  return path.empty() || path[0] == '[' || absl::StartsWith(path, "linux-vdso") || absl::StartsWith(path, "linux-gate");
}

}  // namespace

std::string InsideRoot(const std::string& root, const std::string& path) {
  if (root.empty()) return path;
  const std::string plain = absl::StrCat(root, path);
  const int folder = open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return "";
  const absl::Cleanup closer = [folder] { close(folder); };
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const int file = static_cast<int>(syscall(SYS_openat2, folder, path.c_str(), &how, sizeof(how)));
  if (file < 0) return errno == ENOSYS || errno == EPERM ? plain : "";
  const absl::Cleanup file_closer = [file] { close(file); };
  std::error_code error;
  const fs::path real = fs::read_symlink(absl::StrCat("/proc/self/fd/", file), error);
  return error ? plain : real.string();
}

ModuleFiles::ModuleFiles(SymbolSearch search) : search_(std::move(search)) {
  if (std::string problem = DebuginfodProblem(); search_.debuginfod && !problem.empty())
    notes_.push_back(absl::StrCat(problem, "."));
}

void ModuleFiles::AddNamed(const std::string& path, bool must_be_elf) {
  const std::optional<ElfIdentity> identity = ReadElfIdentity(path);
  if (!identity) {
    if (must_be_elf)
      notes_.push_back(
          absl::StrCat("--symbols ", path, ": ", errno != 0 ? std::strerror(errno) : "is no ELF file", "."));
    return;
  }
  if (identity->build_id.empty()) {
    named_by_file_.try_emplace(BaseName(path), path);
    return;
  }
  Named& named = named_[identity->build_id];
  std::string& place = identity->has_debug_info ? named.debug : named.binary;
  if (place.empty()) place = path;
}

void ModuleFiles::ReadNamed() {
  if (std::exchange(has_named_, true)) return;
  size_t files = 0;
  for (const std::string& place : search_.symbols) {
    std::error_code error;
    if (!fs::is_directory(place, error)) {
      AddNamed(place, /*must_be_elf=*/true);
      continue;
    }
    fs::recursive_directory_iterator entry(place, fs::directory_options::skip_permission_denied, error), end;
    for (; !error && entry != end && files < kMaxNamedFiles; entry.increment(error)) {
      if (entry.depth() >= kDeepestFolder) entry.disable_recursion_pending();
      std::error_code ignored;
      if (!entry->is_regular_file(ignored)) continue;
      ++files;
      AddNamed(entry->path().string(), /*must_be_elf=*/false);
    }
    if (files >= kMaxNamedFiles)
      notes_.push_back(absl::StrCat("--symbols ", place, ": only the first ", kMaxNamedFiles,
                                    " files were looked at. Name a smaller folder."));
  }
}

// `trusted`: a file of this path is taken for the module where there is no build id to compare.
bool ModuleFiles::TryBinary(const std::string& path, const ModuleInfo& module, bool trusted, FoundModule* found) const {
  if (path.empty()) return false;
  const auto doubt = [&](FileTrouble trouble, std::string detail) {
    if (found->trouble == FileTrouble::kOtherBuild) return false;
    found->trouble = trouble;
    found->detail = std::move(detail);
    return false;
  };
  // A trace may name any path, and some devices do something when they are only opened.
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) return doubt(FileTrouble::kUnreadable, "is not a plain file");
  const std::optional<ElfIdentity> identity = ReadElfIdentity(path);
  if (!identity) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return doubt(FileTrouble::kUnreadable,
                 errno != 0 ? std::strerror(errno) : "is no ELF file of this kind of machine");
  }
  if (module.build_id.empty() && !trusted) return false;
  if (!module.build_id.empty() && identity->build_id != module.build_id) {
    return doubt(FileTrouble::kOtherBuild, absl::StrCat("its build id is ", BuildIdText(identity->build_id),
                                                        ", that of the trace ", BuildIdText(module.build_id)));
  }
  found->binary = path;
  found->has_debug_info = identity->has_debug_info;
  found->trouble = module.build_id.empty() ? FileTrouble::kNotVerified : FileTrouble::kNone;
  found->detail.clear();
  return true;
}

void ModuleFiles::FindBinary(const ModuleInfo& module, FoundModule* found) const {
  std::string path = module.path;
  if (path.find('/') != std::string::npos && path[0] != '/' && !search_.working_directory.empty())
    path = absl::StrCat(search_.working_directory, "/", path);
  // The kernel's word for a file that is gone; another of that name may stand in its place.
  const bool deleted = absl::EndsWith(path, " (deleted)");
  if (deleted) path = std::string(absl::StripSuffix(path, " (deleted)"));
  if (path[0] != '/') return;
  if (!search_.sysroot.empty() && TryBinary(InsideRoot(search_.sysroot, path), module, !deleted, found)) return;
  if (module.build_id.empty() && search_.needs_build_ids) {
    std::error_code error;
    if (fs::exists(path, error)) found->detail = "has no build id, and the trace is another machine's or user's";
    return;
  }
  // With another machine's files at hand, one of this machine needs its build id to be believed.
  if (TryBinary(path, module, search_.sysroot.empty() && !deleted, found)) return;
  if (deleted && found->trouble == FileTrouble::kMissing) found->detail = "was deleted while the program ran";
}

std::vector<std::string> ModuleFiles::LinkedFiles(const ElfIdentity& binary, const std::string& path) const {
  if (binary.debug_link.empty()) return {};
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  const std::string folder = Folder(error ? path : real.string());
  const std::string& name = binary.debug_link;
  std::vector<std::string> files = {absl::StrCat(folder, "/", name), absl::StrCat(folder, "/.debug/", name)};
  if (!search_.sysroot.empty()) {
    const std::string inside(absl::StripPrefix(folder, search_.sysroot));
    files.push_back(InsideRoot(search_.sysroot, absl::StrCat(kDebugFolder, inside, "/", name)));
  }
  files.push_back(absl::StrCat(kDebugFolder, folder, "/", name));
  return files;
}

// The separate debug file of a binary, or of a module without one. `binary` is its file, `path` what the trace calls
// it.
std::string ModuleFiles::FindDebugFile(const std::string& build_id, const std::string& binary,
                                       const std::string& path) const {
  if (const auto named = named_.find(build_id); named != named_.end() && !named->second.debug.empty())
    return named->second.debug;
  const std::string by_id = BuildIdFile(build_id, ".debug");
  std::vector<std::string> candidates;
  if (!by_id.empty() && !search_.sysroot.empty()) candidates.push_back(InsideRoot(search_.sysroot, by_id));
  if (!by_id.empty()) candidates.push_back(by_id);
  std::optional<ElfIdentity> own;
  if (!binary.empty()) own = ReadElfIdentity(binary);
  if (own) {
    for (std::string& file : LinkedFiles(*own, binary)) candidates.push_back(std::move(file));
    const auto named = named_by_file_.find(own->debug_link);
    if (named != named_by_file_.end()) candidates.push_back(named->second);
  }
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate == binary || candidate == path) continue;
    const int descriptor = OpenRegularFile(candidate);
    if (descriptor < 0) continue;
    const absl::Cleanup closer = [descriptor] { close(descriptor); };
    const std::optional<ElfIdentity> identity = ReadElfIdentity(descriptor);
    if (!identity || !identity->has_debug_info) continue;
    const bool fits = build_id.empty()
                          ? own && identity->build_id.empty() && DebugLinkCrc(descriptor) == own->debug_link_crc
                          : identity->build_id == build_id;
    if (fits) return candidate;
  }
  return "";
}

void ModuleFiles::AskServer(const ModuleInfo& module, FoundModule* found) {
  if (!search_.debuginfod || module.build_id.empty() || !DebuginfodIsOn()) return;
  const std::string debug = FetchDebugFile(module.build_id, DebugFileKind::kDebugInfo);
  const std::optional<ElfIdentity> identity = debug.empty() ? std::nullopt : ReadElfIdentity(debug);
  if (identity && identity->build_id == module.build_id && identity->has_debug_info) found->debug = debug;
  if (found->readable()) return;
  TryBinary(FetchDebugFile(module.build_id, DebugFileKind::kExecutable), module, false, found);
}

FoundModule ModuleFiles::Find(const ModuleInfo& module) {
  ReadNamed();
  FoundModule found;
  found.trouble = FileTrouble::kNoFile;
  const auto named = module.build_id.empty() ? named_.end() : named_.find(module.build_id);
  if (named != named_.end() && !named->second.binary.empty()) TryBinary(named->second.binary, module, false, &found);
  if (found.binary.empty() && !HasNoFile(module.path)) {
    found.trouble = FileTrouble::kMissing;
    const auto by_file = named_by_file_.find(BaseName(module.path));
    const bool taken =
        module.build_id.empty() && by_file != named_by_file_.end() && TryBinary(by_file->second, module, true, &found);
    if (!taken) FindBinary(module, &found);
  }
  if (!found.has_debug_info) found.debug = FindDebugFile(module.build_id, found.binary, module.path);
  if (!found.has_debug_info && found.debug.empty()) AskServer(module, &found);
  if (found.readable() && found.trouble != FileTrouble::kNotVerified) {
    found.trouble = FileTrouble::kNone;
    found.detail.clear();
  }
  found.has_debug_info = found.has_debug_info || !found.debug.empty();
  return found;
}

}  // namespace gpumem

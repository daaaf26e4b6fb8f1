// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/index_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file_output.h"
#include "base/format.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "trace/series.h"

namespace gpumem {
namespace {

constexpr int kIndexFormat = 6;  // one more whenever tables or their meaning change
constexpr size_t kEdgeBytes = 64 << 10;
constexpr time_t kUnusedSeconds = 30 * 24 * 3600;
constexpr uint64_t kDefaultLimit = uint64_t{8} << 30;  // GPUMEMSHIM_INDEX_LIMIT

std::string FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value == '/' ? value : "";
}

std::string DefaultFolder() {
  if (const std::string named = FromEnvironment("GPUMEMSHIM_INDEX_DIR"); !named.empty()) return named;
  if (const std::string cache = CacheFolder(); !cache.empty()) return cache + "/index";
  const std::string temporary = FromEnvironment("TMPDIR");
  return absl::StrCat(temporary.empty() ? "/tmp" : temporary, "/gpumemshim-index-", getuid());
}

// The bytes at an edge of a file, as much as there is.
std::string ReadAt(int descriptor, off_t offset) {
  std::string bytes(kEdgeBytes, '\0');
  const ssize_t got = pread(descriptor, bytes.data(), bytes.size(), offset);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

absl::Status AddState(const std::string& path, std::string* state) {
  const int descriptor = OpenRegularFile(path);
  if (descriptor < 0 && errno == EINVAL)
    return absl::NotFoundError(absl::StrCat(path, " is not a regular file; name a trace file (*.gmtrace)"));
  if (descriptor < 0) return FileError("open", path);
  struct stat info {};
  if (fstat(descriptor, &info) != 0) {
    const absl::Status failed = FileError("look at", path);
    close(descriptor);
    return failed;
  }
  absl::StrAppend(state, path, "|", info.st_size, "|", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, "|", info.st_ino,
                  "|", ReadAt(descriptor, 0));
  const auto edge = static_cast<off_t>(kEdgeBytes);
  if (info.st_size > edge) absl::StrAppend(state, ReadAt(descriptor, info.st_size - edge));
  close(descriptor);
  return absl::OkStatus();
}

std::string HashText(const std::string& text) {
  return absl::StrFormat("%016x", static_cast<uint64_t>(XXH3_64bits(text.data(), text.size())));
}

// "name.duckdb.tmp.123" of a process that is gone.
bool IsLeftover(const std::string& name) {
  const size_t mark = name.find(".tmp.");
  if (mark == std::string::npos) return false;
  const std::string rest = name.substr(mark + 5);
  int pid = 0;
  if (!absl::SimpleAtoi(rest.substr(0, rest.find('.')), &pid) || pid <= 0) return false;
  return kill(pid, 0) != 0 && errno == ESRCH;
}

// "run.gmtrace.1f2e3d4c5b6a7988.0123456789abcdef.answers", and nothing else that lies in a folder that the user names.
bool IsIndex(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  const auto is_hash = [](absl::string_view part) {
    return part.size() == 16 && std::all_of(part.begin(), part.end(), absl::ascii_isxdigit);
  };
  const size_t all = parts.size();
  return all > 3 && is_hash(parts[all - 2]) && is_hash(parts[all - 3]) &&
         (parts[all - 1] == "analysis" || parts[all - 1] == "answers" || parts[all - 1] == "duckdb" ||
          parts[all - 1] == "events");
}

struct KeptIndex {
  timespec used{};
  uint64_t size = 0;
  std::string path;
};

// Those that nobody used for longest, of more than may be kept.
void AddBeyondLimit(std::vector<KeptIndex> kept, std::vector<std::string>* stale) {
  const char* const set = std::getenv("GPUMEMSHIM_INDEX_LIMIT");
  const uint64_t limit = set == nullptr ? kDefaultLimit : ParseBytes(set).value_or(kDefaultLimit);
  uint64_t sum = 0;
  for (const KeptIndex& each : kept) sum += each.size;
  std::sort(kept.begin(), kept.end(), [](const KeptIndex& a, const KeptIndex& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.path) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.path);
  });
  for (size_t i = 0; i < kept.size() && sum > limit; ++i) {
    sum -= kept[i].size;
    stale->push_back(std::move(kept[i].path));
  }
}

}  // namespace

std::string CacheFolder() {
  if (const std::string cache = FromEnvironment("XDG_CACHE_HOME"); !cache.empty()) return cache + "/gpumemshim";
  const std::string home = FromEnvironment("HOME");
  return home.empty() ? "" : home + "/.cache/gpumemshim";
}

// One that another user could have put there, or could change, is as good as none.
bool IndexFile::exists() const {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

absl::StatusOr<IndexFile> IndexFileOf(const std::string& trace, const std::string& folder,
                                      const std::string& engine_version, const std::string& extension) {
  char resolved[PATH_MAX];
  const std::string place = realpath(trace.c_str(), resolved) != nullptr ? resolved : trace;
  std::string state = absl::StrCat(kIndexFormat, "|", engine_version, "|");
  for (const SeriesFile& file : FindSeries(place).files) GPUMEM_RETURN_IF_ERROR(AddState(file.path, &state));
  IndexFile file;
  file.extension = absl::StrCat(".", extension);
  file.folder = folder.empty() ? DefaultFolder() : folder;
  std::string name = place.substr(place.rfind('/') + 1);
  if (name.size() > 100) name.resize(100);
  file.place_prefix = absl::StrCat(name, ".", HashText(place), ".");
  file.path = absl::StrCat(file.folder, "/", file.place_prefix, HashText(state), ".", extension);
  return file;
}

void RemoveStaleIndexes(const IndexFile& file) {
  DIR* const folder = opendir(file.folder.c_str());
  if (folder == nullptr) return;
  const time_t now = time(nullptr);
  std::vector<std::string> stale;
  std::vector<KeptIndex> kept;
  while (const dirent* const entry = readdir(folder)) {
    const std::string name = entry->d_name;
    const std::string path = file.folder + "/" + name;
    const bool is_temporary = absl::StrContains(name, ".tmp.");
    struct stat info {};
    const bool is_there = lstat(path.c_str(), &info) == 0;
    const bool is_unused = is_there && now - info.st_mtime > kUnusedSeconds;
    const bool is_earlier = !is_temporary && absl::StartsWith(name, file.place_prefix) && path != file.path;
    const std::string kept_as = name.substr(0, name.rfind(".tmp."));
    if (absl::EndsWith(kept_as, file.extension) && (is_earlier || is_unused || IsLeftover(name))) {
      stale.push_back(path);
    } else if (is_there && S_ISREG(info.st_mode) && IsIndex(name) && path != file.path) {
      kept.push_back({info.st_mtim, static_cast<uint64_t>(info.st_size), path});
    }
  }
  closedir(folder);
  AddBeyondLimit(std::move(kept), &stale);
  for (std::string& path : stale) const HalfWritten remover(std::move(path));  // a file or a folder
}

absl::Status MakeIndexFolder(const std::string& folder) {
  for (size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return FileError("make the folder", part);
    if (slash == std::string::npos) break;
  }
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return FileError("look at", folder);
  const bool is_own = info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (is_own) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      folder, " can be written by other users, so no index is kept there. Name another folder: --index-dir DIR"));
}

void TouchIndex(const std::string& path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

}  // namespace gpumem

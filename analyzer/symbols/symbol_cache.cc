// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/symbol_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/output_file.h"
#include "symbols/elf_identity.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

// Rises with whatever changes what would be found, so that old answers are not given for ever.
constexpr char kVersion[] = "v1";
constexpr char kMagic[] = "GMSYMS1\n";
constexpr size_t kMagicBytes = sizeof(kMagic) - 1, kHeadBytes = kMagicBytes + sizeof(uint64_t);
constexpr uint64_t kMaxFileBytes = 64 << 20;
constexpr char kTemporary[] = ".tmp.";
constexpr auto kTemporaryLives = std::chrono::hours(1);

// The content behind the head, or "" where the file is not there, is damaged or is none of ours.
std::string ReadChecked(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return "";
  const absl::Cleanup closer = [descriptor] { close(descriptor); };
  struct stat info {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return "";
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size < kHeadBytes || size > kMaxFileBytes) return "";
  std::string bytes(size, '\0');
  if (pread(descriptor, bytes.data(), size, 0) != info.st_size) return "";
  if (bytes.compare(0, kMagicBytes, kMagic) != 0) return "";
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + kMagicBytes, sizeof(checksum));
  if (XXH3_64bits(bytes.data() + kHeadBytes, size - kHeadBytes) != checksum) return "";
  return bytes.substr(kHeadBytes);
}

struct CacheFile {
  fs::file_time_type used;
  uint64_t bytes = 0;
  fs::path path;
};

std::vector<CacheFile> ListFiles(const std::string& folder) {
  std::vector<CacheFile> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored))
      files.push_back({entry->last_write_time(ignored), entry->file_size(ignored), entry->path()});
  }
  return files;
}

std::string AbsoluteFrom(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

}  // namespace

std::string SymbolCache::DefaultFolder() {
  std::string base = AbsoluteFrom("XDG_CACHE_HOME");
  if (base.empty() && !AbsoluteFrom("HOME").empty()) base = AbsoluteFrom("HOME") + "/.cache";
  return base.empty() ? "" : absl::StrCat(base, "/gpumemshim/symbols/", kVersion);
}

SymbolCache::SymbolCache(std::string folder, uint64_t most_bytes)
    : folder_(std::move(folder)), most_bytes_(most_bytes) {}

std::string SymbolCache::PathOf(const std::string& build_id, SymbolDepth depth) const {
  if (folder_.empty() || build_id.empty() || build_id.size() > 64) return "";
  return absl::StrCat(folder_, "/", BuildIdText(build_id), depth == SymbolDepth::kDwarf ? ".dwarf" : ".table");
}

ModuleSymbols SymbolCache::Read(const std::string& build_id, SymbolDepth depth) const {
  ModuleSymbols symbols;
  const std::string path = PathOf(build_id, depth);
  const std::string bytes = path.empty() ? "" : ReadChecked(path);
  if (bytes.empty() || !symbols.Parse(bytes).ok()) return {};
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used just now: the last to go
  return symbols;
}

bool SymbolCache::MakeFolder() const {
  std::error_code error;
  if (fs::is_directory(folder_, error)) return true;
  fs::create_directories(fs::path(folder_).parent_path(), error);
  return mkdir(folder_.c_str(), 0700) == 0 || errno == EEXIST;
}

void SymbolCache::Write(const std::string& build_id, SymbolDepth depth, const ModuleSymbols& symbols) const {
  const std::string path = PathOf(build_id, depth);
  if (path.empty() || !MakeFolder()) return;
  const uint64_t most = std::min(kMaxFileBytes, most_bytes_ / 2);
  ModuleSymbols all = Read(build_id, depth);
  all.TakeFrom(symbols);
  std::string body = all.Serialize();
  if (kHeadBytes + body.size() > most) body = symbols.Serialize();
  if (kHeadBytes + body.size() > most) return;
  const uint64_t checksum = XXH3_64bits(body.data(), body.size());
  std::string bytes = kMagic;
  bytes.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
  bytes += body;
  WriteOutput(path, bytes).IgnoreError();  // found anew the next time
  Shrink();
}

uint64_t SymbolCache::SizeBytes() const {
  uint64_t bytes = 0;
  for (const CacheFile& file : ListFiles(folder_)) bytes += file.bytes;
  return bytes;
}

void SymbolCache::Shrink() const {
  std::vector<CacheFile> files = ListFiles(folder_);
  uint64_t bytes = 0;
  for (const CacheFile& file : files) bytes += file.bytes;
  std::sort(files.begin(), files.end(), [](const CacheFile& a, const CacheFile& b) { return a.used < b.used; });
  const auto stale = fs::file_time_type::clock::now() - kTemporaryLives;
  for (const CacheFile& file : files) {
    const bool is_left_over = absl::StrContains(file.path.filename().string(), kTemporary) && file.used < stale;
    if (bytes <= most_bytes_ && !is_left_over) continue;
    RemovePlainFile(file.path.string());
    bytes -= file.bytes;
  }
}

}  // namespace gpumem

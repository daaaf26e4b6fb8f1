// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/import_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file_output.h"
#include "base/output_file.h"
#include "base/stable_hash.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

// Rises with whatever changes what an import gives.
constexpr int kImportVersion = 7;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr size_t kMostFiles = 256;
constexpr char kExtension[] = ".gmtrace";

std::atomic<uint64_t> import_ns{0};

// Empty where the file cannot be looked at.
std::string KeyOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "";
  std::error_code error;
  const std::string real = fs::canonical(path, error).string();
  if (error) return "";
  const std::string text = absl::StrCat(real, "\n", info.st_size, "\n", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec,
                                        "\n", info.st_ino, "\n", kImportVersion, "\n", GPUMEM_VERSION);
  return absl::StrFormat("%016x%08x", StableHash(text), static_cast<uint32_t>(StableHash(text + "again")));
}

struct CachedFile {
  fs::path path;
  fs::file_time_type used;
  uint64_t bytes = 0;
};

// Removes the files that were used the longest ago until the rest is small enough.
void Prune(const std::string& folder) {
  std::vector<CachedFile> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored))
      files.push_back({entry->path(), entry->last_write_time(ignored), entry->file_size(ignored)});
  }
  std::sort(files.begin(), files.end(), [](const CachedFile& a, const CachedFile& b) { return a.used > b.used; });
  uint64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    bytes += files[i].bytes;
    if (i > 0 && (i >= kMostFiles || bytes > kMostBytes)) RemovePlainFile(files[i].path.string());
  }
}

TraceWriter::Sink SinkTo(int descriptor, const std::string& name) {
  return [descriptor, name](absl::string_view bytes) {
    return WriteAll(descriptor, bytes) ? absl::OkStatus() : FileError("write", name);
  };
}

// In the cache, under its final name once it is whole. "" where the cache cannot be written.
absl::StatusOr<std::string> ImportIntoCache(const std::string& path, const std::string& folder, const std::string& to,
                                            const ImportProgress& progress) {
  std::error_code error;
  fs::create_directories(folder, error);
  const absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(to, {.hint = ""});
  if (!file.ok()) return std::string();
  bool could_write = true;
  const TraceWriter::Sink sink = [&](absl::string_view bytes) {
    const absl::Status written = (*file)->Write(bytes);
    could_write = written.ok();
    return written;
  };
  const absl::Status imported = ImportFile(path, sink, progress).status();
  if (!could_write) return std::string();
  GPUMEM_RETURN_IF_ERROR(imported);
  if (!(*file)->Commit().ok()) return std::string();
  Prune(folder);
  return to;
}

// A file without a name, which lives as long as this process: its descriptor stays open.
absl::StatusOr<std::string> ImportIntoNowhere(const std::string& path, const ImportProgress& progress) {
  const char* const folder = std::getenv("TMPDIR");
  int descriptor = open(folder == nullptr || *folder == '\0' ? "/tmp" : folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) descriptor = memfd_create("gpumemshim-import", MFD_CLOEXEC);
  if (descriptor < 0) return FileError("make a temporary file for", path);
  const absl::Status imported = ImportFile(path, SinkTo(descriptor, "the imported trace"), progress).status();
  if (!imported.ok()) {
    close(descriptor);
    return imported;
  }
  return absl::StrCat("/proc/self/fd/", descriptor);
}

}  // namespace

uint64_t TakeImportNs() { return import_ns.exchange(0); }

std::string ImportCacheFolder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/gpumemshim/imports";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/gpumemshim/imports";
}

absl::StatusOr<ReadableTrace> MakeReadable(const std::string& path, const ImportProgress& progress) {
  ReadableTrace trace;
  trace.path = path;
  if (!IsOfOthers(path)) return trace;
  trace.is_imported = true;
  const std::string folder = ImportCacheFolder(), key = KeyOf(path);
  const std::string cached = folder.empty() || key.empty() ? "" : absl::StrCat(folder, "/", key, kExtension);
  if (!cached.empty() && access(cached.c_str(), R_OK) == 0) {
    utimensat(AT_FDCWD, cached.c_str(), nullptr, 0);  // used now
    trace.path = cached;
    return trace;
  }
  const auto start = std::chrono::steady_clock::now();
  trace.path.clear();
  if (!cached.empty()) {
    GPUMEM_ASSIGN_OR_RETURN(trace.path, ImportIntoCache(path, folder, cached, progress));
  }
  if (trace.path.empty()) {
    GPUMEM_ASSIGN_OR_RETURN(trace.path, ImportIntoNowhere(path, progress));
  }
  import_ns += static_cast<uint64_t>((std::chrono::steady_clock::now() - start) / std::chrono::nanoseconds(1));
  return trace;
}

}  // namespace gpumem

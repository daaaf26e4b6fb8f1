// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/spill_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ledger/saved/index_file.h"

namespace gpumem {
namespace {

constexpr char kPrefix[] = "gpumemshim-spill-";
constexpr int kMostTries = 8;

// -1: it is not there, or another process has it.
int LockFolder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  close(descriptor);
  return -1;
}

bool IsOwn(int descriptor) {
  struct stat info {};
  return fstat(descriptor, &info) == 0 && info.st_uid == geteuid();
}

// Those of processes that were killed: nobody holds their lock any more.
void RemoveDead(const std::string& folder) {
  DIR* const all = opendir(folder.c_str());
  if (all == nullptr) return;
  std::vector<std::string> found;
  while (const dirent* const entry = readdir(all)) {
    if (absl::StartsWith(entry->d_name, kPrefix)) found.push_back(absl::StrCat(folder, "/", entry->d_name));
  }
  closedir(all);
  for (std::string& path : found) {
    const int lock = LockFolder(path);
    if (lock < 0) continue;
    if (IsOwn(lock)) const HalfWritten remover(std::move(path));
    close(lock);
  }
}

}  // namespace

SpillFolder::SpillFolder(const std::string& index_folder) {
  std::error_code error;
  const std::string temporary = std::filesystem::temp_directory_path(error).string();
  if ((MakeIndexFolder(index_folder).ok() && MakeIn(index_folder)) || error) return;
  MakeIn(temporary);
}

bool SpillFolder::MakeIn(const std::string& folder) {
  RemoveDead(folder);
  for (int i = 0; i < kMostTries; ++i) {
    std::string name = absl::StrCat(folder, "/", kPrefix, "XXXXXX");
    if (mkdtemp(name.data()) == nullptr) return false;
    auto remover = std::make_unique<HalfWritten>(name);
    const int lock = LockFolder(name);
    struct stat named {
    }, locked{};
    // Another process may take it for a dead one's before it is locked.
    if (lock >= 0 && fstat(lock, &locked) == 0 && lstat(name.c_str(), &named) == 0 && named.st_ino == locked.st_ino) {
      path_ = name;
      lock_ = lock;
      remover_ = std::move(remover);
      return true;
    }
    if (lock >= 0) close(lock);
  }
  return false;
}

SpillFolder::~SpillFolder() {
  remover_.reset();
  if (lock_ >= 0) close(lock_);
}

std::string SpillFolder::limit() const {
  struct statvfs disk {};
  const bool is_known = !path_.empty() && statvfs(path_.c_str(), &disk) == 0;
  return absl::StrCat(is_known ? uint64_t{disk.f_bavail} * disk.f_frsize / 2 >> 10 : 0, "KiB");
}

}  // namespace gpumem

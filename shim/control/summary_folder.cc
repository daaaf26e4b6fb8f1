// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/summary_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "shim/base/clock.h"
#include "shim/base/descriptors.h"
#include "shim/base/kernel.h"
#include "shim/settings/text.h"

namespace gpumemshim::control {
namespace {

constexpr char kSummaryPrefix[] = "gpumemshim-summary.";
constexpr int64_t kQuietSeconds = 120;  // a recording writes each second

// As the kernel lays it out for getdents64; opendir would take the heap.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};

// Names behind the first one may change while they are visited, so each is visited at most once.
template <typename Visit>
void ForEachName(int directory, const Visit& visit) {
  alignas(DirectoryEntry) char buffer[4096];
  for (long size; (size = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      at += entry->size;
      if (std::strcmp(entry->name, ".") != 0 && std::strcmp(entry->name, "..") != 0) visit(entry->name);
    }
  }
}

int OpenFolder(int directory, const char* name) {
  return descriptors::Raise(openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

void RemoveAt(int directory, const char* name) {
  const int folder = OpenFolder(directory, name);
  if (folder < 0) return;
  ForEachName(folder, [&](const char* each) { unlinkat(folder, each, 0); });
  close(folder);
  unlinkat(directory, name, AT_REMOVEDIR);
}

int64_t LastChange(int folder) {
  struct stat status;
  int64_t last = kernel::Fstat(folder, &status) == 0 ? status.st_mtime : 0;
  ForEachName(folder, [&](const char* each) {
    if (kernel::FstatatLink(folder, each, &status) == 0 && status.st_mtime > last) last = status.st_mtime;
  });
  return last;
}

bool IsDead(int directory, const char* name) {
  const long pid = std::strtol(name + sizeof kSummaryPrefix - 1, nullptr, 10);
  if (pid <= 0 || kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH) return false;
  const int folder = OpenFolder(directory, name);
  if (folder < 0) return false;
  struct stat status;
  const auto now = static_cast<int64_t>(ClockNs(CLOCK_REALTIME) / 1'000'000'000);
  const bool dead =
      kernel::Fstat(folder, &status) == 0 && status.st_uid == geteuid() && now - LastChange(folder) > kQuietSeconds;
  close(folder);
  return dead;
}

}  // namespace

bool SummaryFolderName(const char* place, int32_t pid, uint64_t start_ticks, char* out, size_t capacity) {
  Text text(out, capacity);
  text.Add(place).Add('/').Add(kSummaryPrefix).Add(static_cast<uint64_t>(pid)).Add('.').Add(start_ticks);
  return !text.overflowed();
}

bool MakeSummaryFolder(const char* place, int32_t pid, uint64_t start_ticks, char* out, size_t capacity) {
  if (place[0] != '/' || !SummaryFolderName(place, pid, start_ticks, out, capacity)) return false;
  // One that is there was made by this process before, or by one of another namespace with all numbers equal.
  return mkdir(out, 0700) == 0;
}

void RemoveSummaryFolder(const char* folder) { RemoveAt(AT_FDCWD, folder); }

void ClearDeadSummaryFolders(const char* place) {
  const int saved_errno = errno;
  const int directory = OpenFolder(AT_FDCWD, place);
  if (directory >= 0) {
    ForEachName(directory, [&](const char* name) {
      if (std::strncmp(name, kSummaryPrefix, sizeof kSummaryPrefix - 1) == 0 && IsDead(directory, name))
        RemoveAt(directory, name);
    });
    close(directory);
  }
  errno = saved_errno;
}

}  // namespace gpumemshim::control

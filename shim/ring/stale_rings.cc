// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/stale_rings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpumemshim::ring {
namespace {

// As the kernel lays it out for getdents64; opendir would take the heap.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};

// The pid in "gpumem.PID.TICKS[.N].ring", 0 where it is no such name.
pid_t PidOfRing(const char* name) {
  constexpr char kPrefix[] = "gpumem.", kSuffix[] = ".ring";
  const size_t length = strlen(name);
  if (strncmp(name, kPrefix, sizeof(kPrefix) - 1) != 0 || length < sizeof(kPrefix) + sizeof(kSuffix)) return 0;
  if (strcmp(name + length - (sizeof(kSuffix) - 1), kSuffix) != 0) return 0;
  const char* digit = name + sizeof(kPrefix) - 1;
  int64_t pid = 0;
  for (; *digit >= '0' && *digit <= '9' && pid < INT32_MAX; digit++) pid = pid * 10 + (*digit - '0');
  return *digit == '.' && pid > 0 && pid <= INT32_MAX ? static_cast<pid_t>(pid) : 0;
}

// A pid that somebody else has by now keeps the ring too: it goes when that process has gone.
bool IsGone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

// The pid may be of another PID namespace (containers that share /dev/shm), so the lock has a say too.
bool IsLocked(int directory, const char* name) {
  const int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return locked;
}

bool IsStale(int directory, const char* name, time_t now) {
  const pid_t pid = PidOfRing(name);
  struct stat file;
  if (pid == 0 || fstatat(directory, name, &file, AT_SYMLINK_NOFOLLOW) != 0) return false;
  return S_ISREG(file.st_mode) && file.st_uid == geteuid() && file.st_mtime + kKeepSeconds < now && IsGone(pid) &&
         !IsLocked(directory, name);
}

}  // namespace

uint32_t RemoveStaleRings(const char* directory, time_t now) {
  const int saved_errno = errno;
  const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  uint32_t removed = 0;
  alignas(DirectoryEntry) char buffer[4096];
  for (long size; fd >= 0 && (size = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0;) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      at += entry->size;
      if (IsStale(fd, entry->name, now) && unlinkat(fd, entry->name, 0) == 0) removed++;
    }
  }
  if (fd >= 0) close(fd);
  errno = saved_errno;
  return removed;
}

}  // namespace gpumemshim::ring

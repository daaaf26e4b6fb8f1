// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/dead_rings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/base/descriptors.h"
#include "shim/base/kernel.h"
#include "shim/ring/layout.h"
#include "shim/ring/moved_ring.h"
#include "shim/ring/ring_names.h"

namespace gpumemshim::ring {
namespace {

// Among those who clear: this one has it. A lock of another kind than the owner's, released with the descriptor.
bool TakeOver(int fd) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool IsSameFile(int directory, const char* name, const struct stat& file) {
  struct stat named;
  return kernel::FstatatLink(directory, name, &named) == 0 && named.st_dev == file.st_dev &&
         named.st_ino == file.st_ino;
}

// A pid that somebody else has by now keeps the ring too: it goes when that process has gone.
bool IsGone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

// A mapping's stores do not change the file's time, so the first who finds it dead writes down when that was.
int64_t SecondsDead(int fd, const RingHeader& header, int64_t now) {
  if (header.dead_since_s != 0) return now - static_cast<int64_t>(header.dead_since_s);
  const auto since = static_cast<uint64_t>(now);
  if (pwrite(fd, &since, sizeof(since), offsetof(RingHeader, dead_since_s)) < 0) return 0;
  return 0;
}

// Of a ring that nobody holds. May it be removed?
bool IsDoneWith(int fd, const char* name, const struct stat& file) {
  const auto now = static_cast<int64_t>(ClockNs(CLOCK_REALTIME) / 1'000'000'000);
  const int64_t age = now - file.st_mtime;
  RingHeader header;
  const bool is_whole = pread(fd, &header, sizeof(header), 0) == static_cast<ssize_t>(sizeof(header));
  if (!is_whole || header.magic != kMagic) return age > kUnfinishedSeconds && IsGone(PidOfRing(name));
  // Without a lock from its owner that nobody holds it means nothing, and others lay their files out otherwise.
  if (header.locked == 0 || header.layout_version != kLayoutVersion)
    return age > kKeepSeconds && IsGone(PidOfRing(name));
  if (header.moved != 0) return false;  // a copy: traces lie here too
  if (!HasContent(fd, header) || PutBesideTrace(fd, header)) return true;
  const int64_t dead = SecondsDead(fd, header, now);
  return dead > kKeepSeconds || (dead > kKeepWithoutTraceSeconds && IsTraceDeleted(header));
}

bool Clear(int directory, const char* name) {
  const int fd = descriptors::Raise(openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd < 0) return false;
  struct stat file;
  const bool cleared = kernel::Fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_uid == geteuid() &&
                       !IsHeld(fd) && TakeOver(fd) && IsSameFile(directory, name, file) && IsDoneWith(fd, name, file) &&
                       unlinkat(directory, name, 0) == 0;
  close(fd);
  return cleared;
}

}  // namespace

uint32_t ClearDeadRings(const char* directory) {
  const int saved_errno = errno;
  uint32_t cleared = 0;
  const int fd = descriptors::Raise(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd >= 0) {
    ForEachRing(
        fd,
        [](void* count, int in, const char* name) {
          auto* so_far = static_cast<uint32_t*>(count);
          if (Clear(in, name)) ++*so_far;
          return *so_far < kMaxRingsAtOnce;
        },
        &cleared);
    close(fd);
  }
  errno = saved_errno;
  return cleared;
}

}  // namespace gpumemshim::ring

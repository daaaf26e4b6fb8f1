// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

#include "shim/base/kernel.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

namespace gpumemshim::descriptors {

namespace {

bool Has(int fd, const Mark& mark) {
  struct stat status;
  if (mark.type == 0) return true;
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & mark.flags) != mark.flags || kernel::Fstat(fd, &status) != 0) return false;
  if (mark.file.inode != 0 && !Is(fd, mark.file)) return false;
  return (status.st_mode & S_IFMT) == (mark.type == Mark::kNoType ? 0 : mark.type);
}

}  // namespace

// 0 to 2 must not be ours either: a program that was started without them may still print.
int Raise(int fd, const Mark& mark) {
  if (fd < 0) return fd;
  for (int lowest : {900, 200, 3}) {
    const int raised = fcntl(fd, F_DUPFD_CLOEXEC, lowest);
    if (raised < 0 && errno == EBADF) return -1;  // closed meanwhile: the number is the program's
    if (raised < 0) continue;
    if (!Has(raised, mark)) {
      close(raised);
      errno = EBADF;
      return -1;
    }
    if (Is(fd, IdentityOf(raised))) close(fd);
    return raised;
  }
  const bool has_mark = Has(fd, mark);
  if (fd > STDERR_FILENO && has_mark) return fd;
  if (has_mark) close(fd);
  errno = has_mark ? EMFILE : EBADF;
  return -1;
}

Identity IdentityOf(int fd) {
  struct stat status;
  if (fd < 0 || kernel::Fstat(fd, &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

bool Is(int fd, const Identity& identity) {
  const Identity now = IdentityOf(fd);
  return now.inode != 0 && now.inode == identity.inode && now.device == identity.device;
}

size_t ReadText(const char* path, char* out, size_t capacity) {
  out[0] = '\0';
  const int fd = Raise(open(path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return 0;
  size_t size = 0;
  while (size < capacity - 1) {
    const ssize_t got = read(fd, out + size, capacity - 1 - size);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  close(fd);
  out[size] = '\0';
  return size;
}

bool LeaveTable(int first) { return syscall(SYS_close_range, first, ~0U, CLOSE_RANGE_UNSHARE) == 0; }

}  // namespace gpumemshim::descriptors

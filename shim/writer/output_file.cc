// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <initializer_list>

#include "shim/base/kernel.h"

// Weak: C libraries of children (musl, glibc before 2.32) lack it.
extern "C" __attribute__((weak)) const char* strerrordesc_np(int) noexcept;

namespace gpumemshim::writer {
namespace {

constexpr int kMaxCollisions = 1000;

// Number 0 is the wanted path itself; others go before the extension, so that the name still ends in it.
bool Numbered(const char* path, int number, char* out, size_t capacity) {
  static constexpr char kExtension[] = ".gmtrace";
  size_t stem = strlen(path);
  const char* extension = "";
  if (stem > sizeof(kExtension) - 1 && strcmp(path + stem - (sizeof(kExtension) - 1), kExtension) == 0) {
    stem -= sizeof(kExtension) - 1;
    extension = kExtension;
  }
  int size = number == 0 ? snprintf(out, capacity, "%s", path)
                         : snprintf(out, capacity, "%.*s.%d%s", static_cast<int>(stem), path, number, extension);
  return size > 0 && static_cast<size_t>(size) < capacity;
}

// Out of the way of the numbers that programs count on. 0 to 2 most of all: a program that was started without them
// may still print, and must not print into a trace.
int MoveUp(int fd) {
  if (fd < 0) return fd;
  for (int lowest : {900, 200, 3}) {
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, lowest);
    if (moved < 0) continue;
    close(fd);
    return moved;
  }
  if (fd > STDERR_FILENO) return fd;
  close(fd);
  errno = EMFILE;
  return -1;
}

}  // namespace

bool OutputFile::Create(const char* path) {
  int saved = ENAMETOOLONG;
  for (int number = 0; number < kMaxCollisions; number++) {
    if (!Numbered(path, number, path_, sizeof(path_))) break;
    fd_ = open(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_APPEND, 0600);
    if (fd_ >= 0) break;
    saved = errno;
    if (saved != EEXIST) break;
  }
  struct stat status;
  if (fd_ >= 0 && (fd_ = MoveUp(fd_)) < 0) saved = errno;
  if (fd_ < 0 || kernel::Fstat(fd_, &status) != 0) {
    path_[0] = '\0';
    return Fail(path, saved);
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
  bytes_ = 0;
  gone_ = false;
  return true;
}

bool OutputFile::IsOurs() const {
  struct stat status;
  return fd_ >= 0 && kernel::Fstat(fd_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

// The program closed our descriptor. Its number may be another file's by now, so it is not ours to close.
bool OutputFile::Reopen() {
  fd_ = open(path_, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_APPEND);
  if (fd_ < 0 || (fd_ = MoveUp(fd_)) < 0) return errno == ENOENT ? Gone("deleted") : Fail(path_, errno);
  if (IsOurs()) return true;
  close(fd_);
  fd_ = -1;
  return Gone("replaced");
}

bool OutputFile::Gone(const char* how) {
  gone_ = true;
  snprintf(error_, sizeof(error_), "%.180s: %s while the program ran", path_, how);
  return false;
}

bool OutputFile::Ready() {
  if (!opened() || gone_) return false;
  if (!IsOurs() && !Reopen()) return false;
  struct stat status;
  if (kernel::Fstat(fd_, &status) != 0) return Fail(path_, errno);
  const char* how = status.st_nlink == 0                             ? "deleted"
                    : static_cast<uint64_t>(status.st_size) < bytes_ ? "truncated"
                                                                     : nullptr;
  if (how == nullptr) return true;
  Close();  // gives the disk back
  return Gone(how);
}

bool OutputFile::Append(const uint8_t* data, size_t size) {
  if (!Ready()) return false;
  const uint64_t whole = bytes_;
  while (size != 0) {
    const ssize_t n = write(fd_, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error_number = n == 0 ? EIO : errno;
      if (ftruncate(fd_, static_cast<off_t>(whole)) == 0) bytes_ = whole;  // half a packet would only look like damage
      return Fail(path_, error_number);
    }
    data += n;
    size -= static_cast<size_t>(n);
    bytes_ += static_cast<uint64_t>(n);
  }
  return true;
}

bool OutputFile::Truncate(uint64_t bytes) {
  if (!Ready()) return false;
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return Fail(path_, errno);
  bytes_ = bytes;
  return true;
}

bool OutputFile::Fail(const char* what, int error_number) {
  // strerror would touch the locale.
  const char* text = strerrordesc_np != nullptr ? strerrordesc_np(error_number) : nullptr;
  snprintf(error_, sizeof(error_), "%.180s: %s", what, text != nullptr ? text : "unknown error");
  return false;
}

void OutputFile::Close() {
  if (IsOurs()) close(fd_);
  fd_ = -1;
}

}  // namespace gpumemshim::writer

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "shim/base/clock.h"
#include "shim/base/descriptors.h"
#include "shim/base/flat_table.h"
#include "shim/base/kernel.h"

// Weak: C libraries of children (musl, glibc before 2.32) lack it.
extern "C" __attribute__((weak)) const char* strerrordesc_np(int) noexcept;

namespace gpumemshim::writer {
namespace {

constexpr int kMaxCollisions = 32;
constexpr int kTries = 8;         // where the program closes all numbers at that very moment
constexpr int kMaxNumbered = 16;  // then names that nobody else has: a thousand containers may all be "gpumemshim.x.1"

uint64_t AnyNumber() {
  uint64_t number = 0;
  if (syscall(SYS_getrandom, &number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
    number = MixBits(MonotonicNs() ^ reinterpret_cast<uintptr_t>(&number) << 20);
  return number;
}

// Number 0 is the wanted path itself; others go before the extension, so that the name still ends in it.
bool Numbered(const char* path, int number, char* out, size_t capacity) {
  static constexpr char kExtension[] = ".gmtrace";
  size_t stem = strlen(path);
  const char* extension = "";
  if (stem > sizeof(kExtension) - 1 && strcmp(path + stem - (sizeof(kExtension) - 1), kExtension) == 0) {
    stem -= sizeof(kExtension) - 1;
    extension = kExtension;
  }
  char suffix[24] = "";
  if (number > kMaxNumbered) {
    snprintf(suffix, sizeof(suffix), ".x%016llx", static_cast<unsigned long long>(AnyNumber()));
  } else if (number > 0) {
    snprintf(suffix, sizeof(suffix), ".%d", number);
  }
  const int size = snprintf(out, capacity, "%.*s%s%s", static_cast<int>(stem), path, suffix, extension);
  return size > 0 && static_cast<size_t>(size) < capacity;
}

// False: errno has why, and a part may be written.
bool WriteAll(int fd, const uint8_t* data, size_t size) {
  while (size != 0) {
    const ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

// Opens what is a plain file, and nothing else: opening a pipe waits for its other end, opening a device may do
// anything. The name may be swapped between the look and the opening, so that must not wait either.
int OpenPlain(const char* path) {
  struct stat status;
  if (kernel::Lstat(path, &status) != 0) return -1;
  if (!S_ISREG(status.st_mode)) {
    errno = ENOENT;  // what was there is gone
    return -1;
  }
  return descriptors::Raise(open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_APPEND),
                            {S_IFREG, O_WRONLY | O_NONBLOCK | O_APPEND});
}

constexpr descriptors::Mark kNewFile = {S_IFREG, O_WRONLY | O_APPEND};

// Nothing where it is another file: one of the program's that has the mark, too, under the low number (descriptors.h).
descriptors::Identity FreshNameless(int fd) {
  struct stat status;
  if (kernel::Fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (status.st_nlink != 0 || status.st_size != 0) return {};
  return {status.st_dev, status.st_ino};
}

bool IsNamed(int fd, const char* path) {
  struct stat status;
  return kernel::Lstat(path, &status) == 0 && descriptors::Is(fd, {status.st_dev, status.st_ino});
}

// The same file by its name: a descriptor that was opened without one is listed as deleted for ever, which would
// mislead lsof and `gpumemshim doctor`. Takes `nameless`, and returns it where the name stands for something else.
int OpenByName(int nameless, const char* path) {
  const int named = OpenPlain(path);
  if (named < 0) return nameless;
  const bool same = descriptors::Is(named, descriptors::IdentityOf(nameless));
  close(same ? nameless : named);
  return same ? named : nameless;
}

}  // namespace

bool IsDevice(const char* path) {
  static constexpr char kDescriptors[] = "/proc/";
  char target[sizeof(kDescriptors) - 1];
  struct stat status;
  if (kernel::Stat(path, &status) == 0 && (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))) return true;
  return readlink(path, target, sizeof(target)) == sizeof(target) && memcmp(target, kDescriptors, sizeof(target)) == 0;
}

void MakeFoldersOf(const char* path) {
  char folder[4096];
  const size_t length = strlen(path);
  const char* const last = strrchr(path, '/');
  if (length >= sizeof(folder) || last == nullptr) return;
  memcpy(folder, path, length + 1);
  folder[last - path] = '\0';
  struct stat status;
  if (stat(folder, &status) == 0 || errno != ENOENT) return;
  for (char* slash = strchr(folder + 1, '/'); slash != nullptr; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(folder, 0777);  // one that is there already is fine
    *slash = '/';
  }
  mkdir(folder, 0777);
}

// A file without a name, which gets one when `data` is in it. False: not here, so it is to be created by name; errno 0
// where that may work.
bool OutputFile::CreateNameless(const char* path, const uint8_t* data, size_t size) {
  const char* slash = strrchr(path, '/');
  const int length = slash == nullptr ? 0 : static_cast<int>(slash - path);
  const int written = snprintf(path_, sizeof(path_), "%.*s%s", length, path, slash == nullptr ? "." : "/");
  errno = 0;
  if (written < 0 || static_cast<size_t>(written) >= sizeof(path_)) return false;
  const int fd = descriptors::Raise(open(path_, O_TMPFILE | O_WRONLY | O_CLOEXEC | O_APPEND, 0600), kNewFile);
  identity_ = fd < 0 ? descriptors::Identity{} : FreshNameless(fd);
  const bool fresh = identity_.inode != 0;
  int error_number = 0;
  if (fresh && WriteAll(fd, data, size)) {
    char source[32];
    snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
    for (int number = 0; number < kMaxCollisions && Numbered(path, number, path_, sizeof(path_)); number++) {
      if (linkat(AT_FDCWD, source, AT_FDCWD, path_, AT_SYMLINK_FOLLOW) == 0) {
        fd_ = OpenByName(fd, path_);
        return true;
      }
      if (errno != EEXIST) break;
    }
  } else if (fresh) {
    error_number = errno;
  }
  if (descriptors::Is(fd, identity_)) close(fd);
  errno = error_number;
  return false;
}

bool OutputFile::CreateNamed(const char* path, const uint8_t* data, size_t size) {
  errno = ENAMETOOLONG;
  for (int number = 0; number < kMaxCollisions && Numbered(path, number, path_, sizeof(path_)); number++) {
    fd_ = open(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_APPEND, 0600);
    if (fd_ >= 0 || errno != EEXIST) break;
  }
  if (fd_ < 0) return false;
  fd_ = descriptors::Raise(fd_, kNewFile);
  const bool ours = fd_ >= 0 && IsNamed(fd_, path_);
  identity_ = ours ? descriptors::IdentityOf(fd_) : descriptors::Identity{};
  if (ours && WriteAll(fd_, data, size)) return true;
  const int saved = ours || fd_ < 0 ? errno : EBADF;
  unlink(path_);  // nothing is in it
  Close();
  errno = saved;
  return false;
}

bool OutputFile::Create(const char* path, const uint8_t* data, size_t size) {
  if (IsDevice(path)) {
    path_[0] = '\0';
    return Fail(path, EINVAL);
  }
  bool created = false;
  for (int i = 0; i < kTries && !created; i++) {
    created = CreateNameless(path, data, size);
    if (!created && errno == 0) created = CreateNamed(path, data, size);
    if (!created && errno != EBADF) break;
  }
  if (!created || identity_.inode == 0) {
    path_[0] = '\0';
    return Fail(path, errno);
  }
  bytes_ = size;
  gone_ = false;
  keeps_room_ = true;
  return true;
}

// One look for all that is asked: between two the program may close it.
bool OutputFile::IsOurs(struct stat* status) const {
  if (fd_ < 0 || kernel::Fstat(fd_, status) != 0) return false;
  return status->st_ino == identity_.inode && status->st_dev == identity_.device;
}

// The program closed our descriptor. Its number may be another file's by now, so it is not ours to close.
bool OutputFile::Reopen(struct stat* status) {
  for (int i = 0; i < kTries; i++) {
    fd_ = OpenPlain(path_);
    if (fd_ < 0 && errno == ENOENT) return Gone("deleted");
    if (fd_ < 0 && errno != EBADF) break;
    if (IsOurs(status)) return true;
    if (descriptors::IdentityOf(fd_).inode == 0) continue;  // closed already
    close(fd_);
    fd_ = -1;
    return Gone("replaced");
  }
  return Fail(path_, fd_ < 0 ? errno : EBADF);
}

bool OutputFile::Gone(const char* how) {
  gone_ = true;
  snprintf(error_, sizeof(error_), "%.180s: %s while the program ran", path_, how);
  return false;
}

bool OutputFile::Ready() {
  if (!opened() || gone_) return false;
  struct stat status;
  if (!IsOurs(&status) && !Reopen(&status)) return false;
  const char* how = status.st_nlink == 0                             ? "deleted"
                    : static_cast<uint64_t>(status.st_size) < bytes_ ? "truncated"
                                                                     : nullptr;
  if (how == nullptr) return true;
  Close();  // gives the disk back
  return Gone(how);
}

// Room for `size` bytes more and, behind them, for what must be said where there is no more. False: errno has why.
bool OutputFile::KeepRoom(size_t size) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes_ + size + std::min<uint64_t>(kKeptBack, limit.rlim_cur / 16) > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  if (!keeps_room_ ||
      fallocate(fd_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(bytes_), static_cast<off_t>(size + kKeptBack)) == 0) {
    return true;
  }
  if (errno == ENOSPC || errno == EDQUOT) return false;
  if (errno != EBADF) keeps_room_ = false;  // else the program has just closed it
  return true;
}

bool OutputFile::Append(const uint8_t* data, size_t size) {
  if (!Ready()) return false;
  return KeepRoom(size) ? AppendLast(data, size) : Fail(path_, errno);
}

bool OutputFile::AppendLast(const uint8_t* data, size_t size) {
  for (int i = 0; i < kTries; i++) {
    if (!Ready()) return false;
    if (i > 0 && ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) continue;
    if (WriteAll(fd_, data, size)) {
      bytes_ += size;
      return true;
    }
    if (errno != EBADF) break;  // else the program has just closed it
  }
  const int error_number = errno;
  if (ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) {  // half a packet would only look like damage
    struct stat status;
    if (kernel::Fstat(fd_, &status) == 0) bytes_ = static_cast<uint64_t>(status.st_size);
  }
  return Fail(path_, error_number);
}

bool OutputFile::Truncate(uint64_t bytes) {
  for (int i = 0; i < kTries; i++) {
    if (!Ready()) return false;
    if (ftruncate(fd_, static_cast<off_t>(bytes)) == 0) {
      bytes_ = bytes;
      return true;
    }
    if (errno != EBADF) break;
  }
  return Fail(path_, errno);
}

bool OutputFile::Fail(const char* what, int error_number) {
  // strerror would touch the locale.
  const char* text = strerrordesc_np != nullptr ? strerrordesc_np(error_number) : nullptr;
  snprintf(error_, sizeof(error_), "%.180s: %s", what, text != nullptr ? text : "unknown error");
  return false;
}

void OutputFile::Finish() {
  if (keeps_room_ && Ready() && ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) keeps_room_ = false;
  Close();
}

void OutputFile::Close() {
  if (descriptors::Is(fd_, identity_)) close(fd_);
  fd_ = -1;
}

}  // namespace gpumemshim::writer

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Calls of the kernel that other preloads stand before (libfaketime and fakeroot have their own fstat), at a time when
// they may be gone: our last words are written while destructors run, theirs before ours.
//
// Thread-safety: any thread. Failure: -1 and errno, as the C library's.
//
//   struct stat status;
//   if (kernel::Fstat(fd, &status) != 0) return false;

#ifndef GPUMEM_SHIM_BASE_KERNEL_H_
#define GPUMEM_SHIM_BASE_KERNEL_H_

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpumemshim::kernel {

inline int Fstat(int fd, struct stat* status) { return static_cast<int>(syscall(SYS_fstat, fd, status)); }

inline int Stat(const char* path, struct stat* status) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}

inline int Lstat(const char* path, struct stat* status) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW));
}

inline int FstatatLink(int directory, const char* name, struct stat* status) {
  return static_cast<int>(syscall(SYS_newfstatat, directory, name, status, AT_SYMLINK_NOFOLLOW));
}

}  // namespace gpumemshim::kernel

#endif  // GPUMEM_SHIM_BASE_KERNEL_H_

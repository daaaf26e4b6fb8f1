// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/memory_read.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace gpumemshim::stack {
namespace {

constexpr uintptr_t kPageSize = 4096;

// Where a sandbox forbids process_vm_readv: msync says ENOMEM for an address that is not mapped, and does nothing else.
bool IsMapped(uintptr_t address, size_t size) {
  const uintptr_t start = address & ~(kPageSize - 1);
  return msync(reinterpret_cast<void*>(start), address + size - start, MS_ASYNC) == 0;
}

}  // namespace

bool TryReadBytes(const void* address, void* out, size_t size) {
  const int saved_errno = errno;
  const auto value = reinterpret_cast<uintptr_t>(address);
  bool done = false;
  if (value >= kPageSize) {
    iovec to{out, size};
    iovec from{const_cast<void*>(address), size};
    const ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    done = got == static_cast<ssize_t>(size);
    if (got < 0 && (errno == EPERM || errno == ENOSYS) && IsMapped(value, size)) {
      std::memcpy(out, address, size);
      done = true;
    }
  }
  errno = saved_errno;
  return done;
}

}  // namespace gpumemshim::stack

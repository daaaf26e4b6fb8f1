// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/standard_error.h"

#include <fcntl.h>
#include <unistd.h>

#include "shim/base/kernel.h"

namespace gpumemshim::oom {

void StandardError::Remember() {
  struct stat status;
  known_ = kernel::Fstat(STDERR_FILENO, &status) == 0;
  if (!known_) return;
  device_ = status.st_dev;
  node_ = status.st_ino;
}

bool StandardError::Usable() const {
  struct stat status;
  if (kernel::Fstat(STDERR_FILENO, &status) != 0) return false;
  if (known_ && status.st_dev == device_ && status.st_ino == node_) return true;
  if (S_ISFIFO(status.st_mode) || isatty(STDERR_FILENO) == 1) return true;
  const int flags = fcntl(STDERR_FILENO, F_GETFL);
  return S_ISREG(status.st_mode) && flags >= 0 && (flags & O_APPEND) != 0;
}

}  // namespace gpumemshim::oom

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// StandardError: whether descriptor 2 is still where people read. A program that closes it and opens a data file or a
// connection gets that number for it: our text must not land there. What it was at the start may be written to; of
// others a terminal, a pipe, and a file that is appended to, as logs are.
//
// Thread-safety: one thread. Failure: not usable.
//
//   error.Remember();
//   if (error.Usable()) write(STDERR_FILENO, ...);

#ifndef GPUMEM_SHIM_WITNESS_OOM_STANDARD_ERROR_H_
#define GPUMEM_SHIM_WITNESS_OOM_STANDARD_ERROR_H_

#include <sys/types.h>

namespace gpumemshim::oom {

class StandardError {
 public:
  void Remember();
  bool Usable() const;

 private:
  bool known_ = false;
  dev_t device_ = 0;
  ino_t node_ = 0;
};

}  // namespace gpumemshim::oom

#endif  // GPUMEM_SHIM_WITNESS_OOM_STANDARD_ERROR_H_

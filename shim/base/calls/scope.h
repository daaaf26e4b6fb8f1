// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Scope: how deep a thread is in hooked calls, or in work of our own: the outermost records, those inside pass through.
// ErrnoSaver: errno is as the program's own call left it.
//
// Thread-safety: one byte of initial-exec TLS. Failure: none.
//
//   const Scope scope;
//   if (!scope.outermost()) return call();

#ifndef GPUMEM_SHIM_BASE_CALLS_SCOPE_H_
#define GPUMEM_SHIM_BASE_CALLS_SCOPE_H_

#include <cerrno>

namespace gpumemshim::calls {

// How many hooked calls this thread is in. Also raised by our own threads and while we set up.
extern constinit thread_local unsigned char t_depth __attribute__((tls_model("initial-exec")));

class Scope {
 public:
  Scope() : outermost_(t_depth++ == 0) {}
  ~Scope() { --t_depth; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  bool outermost() const { return outermost_; }

 private:
  const bool outermost_;
};

class ErrnoSaver {
 public:
  ErrnoSaver() : saved_(errno) {}
  ~ErrnoSaver() { errno = saved_; }
  ErrnoSaver(const ErrnoSaver&) = delete;
  ErrnoSaver& operator=(const ErrnoSaver&) = delete;

 private:
  const int saved_;
};

}  // namespace gpumemshim::calls

#endif  // GPUMEM_SHIM_BASE_CALLS_SCOPE_H_

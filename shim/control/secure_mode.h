// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A program that has more rights than who started it: set-uid, set-gid, file capabilities. LD_PRELOAD does not bring us
// there, but /etc/ld.so.preload does. Its environment is that user's, and a file that it names would be made with
// rights that the user does not have. So nothing of ours happens there: the hooks hand on, and that is all.
//
// Thread-safety: pure, no system call. Failure: none.
//
//   if (IsSecureMode()) return false;

#ifndef GPUMEM_SHIM_CONTROL_SECURE_MODE_H_
#define GPUMEM_SHIM_CONTROL_SECURE_MODE_H_

#include <sys/auxv.h>

namespace gpumemshim::control {

inline bool IsSecureMode() { return getauxval(AT_SECURE) != 0; }

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SECURE_MODE_H_

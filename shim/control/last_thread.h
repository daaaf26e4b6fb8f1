// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A process whose main thread has left (pthread_exit) ends with its last thread: the C library calls exit(0) then. Ours
// would keep it alive for ever, so we look for that and call exit(0) in the place of its own last thread.
//
// Thread-safety: one thread of ours. Failure: where /proc cannot be read the process stays.
//
//   ExitIfOnlyOursAreLeft();   // about once a second

#ifndef GPUMEM_SHIM_CONTROL_LAST_THREAD_H_
#define GPUMEM_SHIM_CONTROL_LAST_THREAD_H_

namespace gpumemshim::control {

void ExitIfOnlyOursAreLeft();

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_LAST_THREAD_H_

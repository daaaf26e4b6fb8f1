// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How a session ends. At exit() and at the end of main the library's destructor does it; _exit, _Exit and quick_exit
// run no destructor, so that the first two are interposed, and a handler of at_quick_exit comes after all others.
//
//   return, exit   ... atexit handlers, destructors, ours: EndSession ───────────────► _exit of the C library itself
//   quick_exit     ... the program's handlers, newest first, ours: EndSessionNow ────► _exit of the C library itself
//   _exit, _Exit   ours: EndSessionNow ──────────────────────────────────────────────► the next _exit
//
// EndSessionNow may be called anywhere: in a signal handler in the middle of a hook, malloc or the loader; by several
// threads at once; in a child in its parent's memory, where it does nothing. It waits for the writer thread, which has
// no part in what the caller holds but for the loader's and CUDA's locks, and so not for ever. Where that was in vain
// the process ends as by a kill: the ring stays and has what the trace lacks.
//
// Thread-safety: any thread. Failure: the trace has no end.

#ifndef GPUMEM_SHIM_CONTROL_ENDING_H_
#define GPUMEM_SHIM_CONTROL_ENDING_H_

namespace gpumemshim::control {

// In the library's destructor, or where a program ends its recording and goes on.
void EndSession();

void EndSessionNow();

// At set-up. quick_exit will call EndSessionNow, after the handlers of the program.
void PrepareEnd();

// A process whose main thread has left (pthread_exit) ends with its last thread: the C library calls exit(0) then. Ours
// would keep it alive for ever, so we look for that and call exit(0) in the place of its own last thread.
//
// Thread-safety: one thread of ours. Failure: where /proc cannot be read the process stays.
//
//   ExitIfOnlyOursAreLeft();   // about once a second
void ExitIfOnlyOursAreLeft();

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_ENDING_H_

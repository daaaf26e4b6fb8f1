// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Work that opens files for a moment, done on a thread that has descriptors of its own ("gpumemshim-file"). In the
// program's table such a file would have the lowest free number for that moment: the program would be given another
// one, and where it closes descriptors that it does not know and opens files of its own, it would lose one of those to
// our close().
//
//   writer, sampler, control ──Do(work)──► gpumemshim-file: open, read, close ──► Do returns
//
// The work must not start threads or processes, which would have these descriptors too, nor call CUDA or NVML, whose
// descriptors it does not have, and /proc/self/fd is the program's (/proc/thread-self/fd is its own).
//
// Thread-safety: Do from any thread but those that may hold what the work waits for; one piece of work at a time.
// Start, Stop and ForgetInChild one at a time. Never in a hook or a signal handler. Failure: where there is no such
// thread (an old kernel, a sandbox, a forked child) the work is done in place.
//
//   apart::Start();
//   uint64_t bytes = 0;
//   apart::Do([&bytes] { bytes = ReadResidentBytes(); });

#ifndef GPUMEM_SHIM_BASE_APART_H_
#define GPUMEM_SHIM_BASE_APART_H_

namespace gpumemshim::apart {

void Start();

void DoWork(void (*work)(void*), void* data);

template <typename Work>
void Do(Work work) {
  DoWork([](void* data) { (*static_cast<Work*>(data))(); }, &work);
}

// Ends the thread, unless it is in the middle of something.
void Stop();

// The thread is not here.
void ForgetInChild();

}  // namespace gpumemshim::apart

#endif  // GPUMEM_SHIM_BASE_APART_H_

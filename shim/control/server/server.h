// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The thread that answers `gpumemshim ctl`, and that switches the recording after a signal (GPUMEMSHIM_SIGNAL). It
// exists from the first use of CUDA on, looks up twenty times a second, listens to eight callers at a time and answers
// one after the other: a caller that says nothing, too much or nonsense costs the program and the other callers
// nothing.
//
// Only the user that the program runs as, and root, are answered (SO_PEERCRED), whatever the file system says.
//
// Thread-safety: Start, Stop and ForgetInChild one at a time, by session.cc. Failure: Start returns false where there
// is neither a socket nor a signal to wait for, and the program goes on without.
//
//   server::Options options; options.directory = ""; options.signal = SIGUSR2;
//   server::Start(options);
//   server::Stop(1000);

#ifndef GPUMEM_SHIM_CONTROL_SERVER_SERVER_H_
#define GPUMEM_SHIM_CONTROL_SERVER_SERVER_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim::control::server {

struct Options {
  bool listen = true;
  const char* directory = "";  // "" = the usual place
  int signal = 0;              // 0 = none. Left alone where the program has a handler for it
};

bool Start(const Options& options);

// Where another user has made the usual directory of the socket: what to say of it. 0 = nothing.
size_t PlaceLine(char* out, size_t capacity);

// Ends the thread and removes the socket. Waits at most timeout_ms for a request that is being answered.
void Stop(uint32_t timeout_ms);

// Has the thread look for new places of CUDA's functions (slot_scan.h), which may wait for the loader. False: there is
// no thread. From any thread.
bool ScanSlots();

// The socket's file, of a process that ends at once. In a signal handler too.
void RemoveSocketFile();

// In a forked child: the thread is not here, the descriptors are.
void ForgetInChild();

// True from Stop's beginning on: whoever works for a caller gives up.
bool IsStopping();

}  // namespace gpumemshim::control::server

#endif  // GPUMEM_SHIM_CONTROL_SERVER_SERVER_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Descriptors of ours in a process that is not. A program counts on the numbers that it is given, closes those that it
// does not know, and is then given their numbers again. So ours lie where no program comes by counting, and each use of
// one that was kept begins with the question whether it still is what was opened (docs/processes.md lists them all).
//
// Thread-safety: any thread. Failure: -1 and errno; false; an identity that equals none.
//
//   const int fd = descriptors::Raise(open(path, O_RDONLY | O_CLOEXEC));
//   const descriptors::Identity identity = descriptors::IdentityOf(fd);
//   ...
//   if (descriptors::Is(fd, identity)) write(fd, data, size);

#ifndef GPUMEM_SHIM_BASE_DESCRIPTORS_H_
#define GPUMEM_SHIM_BASE_DESCRIPTORS_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim::descriptors {

struct Identity {
  uint64_t device = 0;
  uint64_t inode = 0;  // 0 = nothing
};

// By what a file just opened is known to be it: its type (S_IFMT), flags of its opening (F_GETFL), which file it is.
struct Mark {
  static constexpr unsigned kNoType = 1;  // of an event, a timer, an epoll, ... (anon_inode)

  unsigned type = 0;  // 0 = any
  int flags = 0;
  Identity file = {};  // where it is known
};

// The same open file at a number of 900 or more, closed on exec; where the limit of descriptors forbids that, of 200 or
// more, else above the standard three. Takes `fd`, which may be the -1 of a call that failed. A program that closes
// every number may have closed the low one and been given it for a file of its own before this is called: what has not
// the mark is left to it, with EBADF.
int Raise(int fd, const Mark& mark = {});

Identity IdentityOf(int fd);

// True while `fd` stands for the file of `identity`.
bool Is(int fd, const Identity& identity);

// The beginning of a small file as text, cut at `capacity`; its length. 0 and "" where there is nothing to read.
size_t ReadText(const char* path, char* out, size_t capacity);

// Gives the calling thread descriptors of its own, of which there are only those below `first`: what is opened on it
// goes with the thread, and no other thread can come by its number. For good, so for a thread that does only that.
// False: the kernel is older than 5.9, or a sandbox forbids it; then nothing has changed.
bool LeaveTable(int first);

}  // namespace gpumemshim::descriptors

#endif  // GPUMEM_SHIM_BASE_DESCRIPTORS_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/stderr_line.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/kernel.h"

namespace gpumemshim::control {
namespace {

constexpr int kWaitMs = 100;

// What a shell hands down is not closed by exec, and is not a directory, block device or file that can be read as well.
bool LooksLikeStderr() {
  const int flags = fcntl(STDERR_FILENO, F_GETFL), descriptor_flags = fcntl(STDERR_FILENO, F_GETFD);
  struct stat status;
  if (flags < 0 || descriptor_flags < 0 || (descriptor_flags & FD_CLOEXEC) != 0) return false;
  if (kernel::Fstat(STDERR_FILENO, &status) != 0) return false;
  const bool writes_only = (flags & O_ACCMODE) == O_WRONLY;
  return S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) ||
         (S_ISREG(status.st_mode) && (writes_only || (flags & O_APPEND) != 0));
}

// A pipe that nobody empties would hold the program's end up.
bool HasRoom() {
  pollfd stream = {STDERR_FILENO, POLLOUT, 0};
  return poll(&stream, 1, kWaitMs) != 0;  // an error says nothing: `ulimit -n 0` is one
}

bool IsPending(int signal) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

}  // namespace

void WriteLine(const char* line, size_t size) {
  if (size == 0) return;
  const int saved = errno;
  sigset_t ours, before;
  sigemptyset(&ours);
  sigaddset(&ours, SIGPIPE);
  sigaddset(&ours, SIGXFSZ);
  sigset_t blocked = ours;
  sigaddset(&blocked, SIGTTOU);  // blocked, it does not stop a background process that writes to its terminal
  const bool had_pipe = IsPending(SIGPIPE), had_size = IsPending(SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if (LooksLikeStderr() && HasRoom() && write(STDERR_FILENO, line, size) < 0) {
    // Takes back what this write raised, and nothing that was there before.
    if (had_pipe) sigdelset(&ours, SIGPIPE);
    if (had_size) sigdelset(&ours, SIGXFSZ);
    const timespec now = {0, 0};
    while (sigtimedwait(&ours, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = saved;
}

}  // namespace gpumemshim::control

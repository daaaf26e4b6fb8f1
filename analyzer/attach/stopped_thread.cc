// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/stopped_thread.h"

#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

absl::Status WhyNot(const char* what, pid_t tid) {
  const int error = errno;
  const std::string text = absl::StrCat(what, " thread ", tid, ": ", std::strerror(error));
  if (error == ESRCH) return absl::NotFoundError(text);
  return error == EPERM || error == EACCES ? absl::PermissionDeniedError(text) : absl::UnavailableError(text);
}

// Until the stop that we asked for. A signal that comes first is delivered, and the wait goes on.
bool AwaitStop(pid_t tid, int* status) {
  for (;;) {
    pid_t waited;
    do {
      waited = waitpid(tid, status, __WALL);
    } while (waited < 0 && errno == EINTR);
    if (waited != tid || !WIFSTOPPED(*status)) return false;
    if (*status >> 16 == PTRACE_EVENT_STOP) return true;
    if (ptrace(PTRACE_CONT, tid, nullptr, WSTOPSIG(*status)) != 0) return false;
  }
}

}  // namespace

absl::StatusOr<StoppedThread> StoppedThread::Stop(pid_t tid) {
  if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return WhyNot("cannot trace", tid);
  int status = 0;
  user_regs_struct registers{};
  iovec whole{&registers, sizeof registers};
  if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0 || !AwaitStop(tid, &status)) {
    const absl::Status why = WhyNot("cannot stop", tid);
    ptrace(PTRACE_DETACH, tid, nullptr, nullptr);
    return why;
  }
  StoppedThread thread(tid, 0, registers);
  if (ptrace(PTRACE_GETREGSET, tid, 1 /* NT_PRSTATUS */, &whole) != 0)
    return WhyNot("cannot read the registers of", tid);
  if (whole.iov_len != sizeof registers) return absl::UnimplementedError("a thread in 32-bit code");
  thread.registers_ = registers;
  return thread;
}

StoppedThread::StoppedThread(StoppedThread&& other) noexcept
    : tid_(std::exchange(other.tid_, 0)), signal_(other.signal_), registers_(other.registers_) {}

StoppedThread::~StoppedThread() {
  if (tid_ != 0) ptrace(PTRACE_DETACH, tid_, nullptr, signal_);
}

absl::Status StoppedThread::GoOnAt(uint64_t address, uint64_t rax) {
  user_regs_struct registers = registers_;
  registers.rip = address;
  registers.rax = rax;
  registers.orig_rax = ~uint64_t{0};
  iovec whole{&registers, sizeof registers};
  if (ptrace(PTRACE_SETREGSET, tid_, 1 /* NT_PRSTATUS */, &whole) != 0)
    return WhyNot("cannot set the registers of", tid_);
  return absl::OkStatus();
}

}  // namespace gpumem

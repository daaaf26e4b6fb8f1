// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/stopped_thread.h"

#include <cpuid.h>
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

extern "C" const char gpumem_payload_start[], gpumem_payload_entry[], gpumem_payload_texts[];

namespace gpumem {
namespace {

// payload_x86_64.S, in its order.
struct Slots {
  uint64_t resume, create, self, detach, open, symbol, state_bytes, library, settings;
};

// Of the area that XSAVE writes with all that the system has switched on (CPUID 0xD: EBX), and some to align it.
uint64_t StateBytes() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(0xD, 0, &a, &b, &c, &d) == 0 || b < 576) return 0;
  return (uint64_t{b} + 127) & ~uint64_t{63};
}

}  // namespace

absl::StatusOr<Payload> MakePayload(const AddressRange& room, const CLibrary& functions, const std::string& library,
                                    const std::string& settings) {
  const auto code_bytes = static_cast<size_t>(gpumem_payload_texts - gpumem_payload_start);
  const size_t size = code_bytes + library.size() + 1 + settings.size() + 1;
  if (size > room.end - room.start) {
    return absl::ResourceExhaustedError(absl::StrCat("the paths and settings are too long: ", size, " bytes of ",
                                                     room.end - room.start, " that there is room for"));
  }
  Slots slots{};
  slots.create = functions.pthread_create;
  slots.self = functions.pthread_self;
  slots.detach = functions.pthread_detach;
  slots.open = functions.dlopen;
  slots.symbol = functions.dlsym;
  slots.state_bytes = StateBytes();
  slots.library = room.start + code_bytes;
  slots.settings = slots.library + library.size() + 1;
  if (slots.state_bytes == 0) return absl::UnimplementedError("this processor has no XSAVE");
  Payload payload;
  payload.address = payload.resume_slot = room.start;
  payload.entry = room.start + static_cast<uint64_t>(gpumem_payload_entry - gpumem_payload_start);
  payload.bytes.assign(gpumem_payload_start, code_bytes);
  std::memcpy(payload.bytes.data(), &slots, sizeof slots);
  payload.bytes.append(library.c_str(), library.size() + 1);
  payload.bytes.append(settings.c_str(), settings.size() + 1);
  return payload;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "append_trap.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace torture {
namespace {

constexpr char kWriterName[] = "gpumemshim-disk";
constexpr int kMaxStops = 10'000;

pid_t WriterOf(pid_t victim) {
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator(absl::StrCat("/proc/", victim, "/task"), ignored)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name == kWriterName) return static_cast<pid_t>(std::atoi(task.path().filename().c_str()));
  }
  return 0;
}

bool WaitForStop(pid_t thread) {
  int status = 0;
  return waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status);
}

bool GoOnToSyscall(pid_t thread) {
  return ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr) == 0 && WaitForStop(thread);
}

}  // namespace

#if defined(__x86_64__)

bool KillInAppend(pid_t victim, AppendStep step, uint32_t part) {
  const pid_t writer = WriterOf(victim);
  if (writer == 0 || ptrace(PTRACE_SEIZE, writer, nullptr, PTRACE_O_TRACESYSGOOD) != 0) return false;
  bool trapped = ptrace(PTRACE_INTERRUPT, writer, nullptr, nullptr) == 0 && WaitForStop(writer);
  user_regs_struct registers{};
  bool entering = false;
  for (int stops = 0; trapped && stops < kMaxStops; ++stops) {
    trapped = GoOnToSyscall(writer) && ptrace(PTRACE_GETREGS, writer, nullptr, &registers) == 0;
    // The kernel shows ENOSYS as the result of a call that has not been made yet.
    entering = static_cast<long>(registers.rax) == -ENOSYS;
    if (entering && registers.orig_rax == SYS_write) break;
  }
  trapped = trapped && entering && registers.orig_rax == SYS_write;
  if (trapped && step != AppendStep::kBeforeTheWrite) {
    if (step == AppendStep::kHalfWritten) registers.rdx = registers.rdx == 0 ? 0 : part % registers.rdx;
    trapped = ptrace(PTRACE_SETREGS, writer, nullptr, &registers) == 0 && GoOnToSyscall(writer);
  }
  if (!trapped) {
    ptrace(PTRACE_DETACH, writer, nullptr, nullptr);
    return false;
  }
  kill(victim, SIGKILL);
  int status = 0;
  waitpid(writer, &status, __WALL);
  return true;
}

#else

bool KillInAppend(pid_t, AppendStep, uint32_t) { return false; }

#endif

}  // namespace torture

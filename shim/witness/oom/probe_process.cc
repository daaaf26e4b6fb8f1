// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/oom/probe_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <type_traits>

#include "shim/base/clock.h"

namespace gpumemshim::oom {
namespace {

// RawSyscall: a system call that leaves errno alone, for code that runs on another thread's thread-local storage.

inline long RawSyscall6(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "How does this machine make a system call?"
#endif
}

template <typename T>
long Word([[maybe_unused]] T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<long>(value);
  } else if constexpr (std::is_null_pointer_v<T>) {
    return 0;
  } else {
    return static_cast<long>(value);
  }
}

template <typename A = long, typename B = long, typename C = long, typename D = long, typename E = long>
long RawSyscall(long number, A a = {}, B b = {}, C c = {}, D d = {}, E e = {}) {
  return RawSyscall6(number, Word(a), Word(b), Word(c), Word(d), Word(e), 0);
}

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr size_t kOutputBytes = size_t{128} << 10;
constexpr int kNiceness = 10;
constexpr int kFirstFree = 3;  // descriptors from here on are the host's
constexpr int kOutOfTheWay = 64;
constexpr unsigned kMaxDescriptors = 1u << 16;
constexpr int kSignals = 64;
constexpr int kExitNotStarted = 127;

// What the supervisor and the program's process read; lies in memory_, before the stacks.
struct Plan {
  const char* path;
  const char* const* argv;
  const char* const* envp;
  uint64_t deadline_ns;
  long host_pid;
  long supervisor_pid;
  int pipe_write;
  bool beside;  // prints as it goes, and is asked to end
  alignas(16) unsigned char supervisor_stack[kStackBytes];
  alignas(16) unsigned char program_stack[kStackBytes];
  char output[kOutputBytes];
};

void CloseHostDescriptors() {
  if (RawSyscall(SYS_close_range, kFirstFree, ~0U, 0) == 0) return;
  for (unsigned fd = kFirstFree; fd < kMaxDescriptors; fd++) RawSyscall(SYS_close, fd);
}

// The host's handlers lie in memory that this process shares: none may run in it.
void ForgetSignals() {
  struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    uint64_t mask;
  } action = {};
  for (int signal = 1; signal <= kSignals; signal++)
    RawSyscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof(uint64_t));
  uint64_t none = 0;
  RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
}

// The program's process, up to exec. Its parent, the supervisor, stands still until then.
int BecomeProgram(void* argument) {
  const Plan& plan = *static_cast<Plan*>(argument);
  RawSyscall(SYS_prctl, PR_SET_PDEATHSIG, plan.beside ? SIGTERM : SIGKILL);
  if (RawSyscall(SYS_getppid) != plan.supervisor_pid) return kExitNotStarted;
  ForgetSignals();
  const long nothing = RawSyscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY);
  if (nothing > 0) RawSyscall(SYS_dup3, nothing, STDIN_FILENO, 0);
  RawSyscall(SYS_dup3, plan.beside ? STDERR_FILENO : plan.pipe_write, STDOUT_FILENO, 0);
  if (!plan.beside) RawSyscall(SYS_dup3, plan.pipe_write, STDERR_FILENO, 0);
  CloseHostDescriptors();
  RawSyscall(SYS_setpriority, PRIO_PROCESS, 0, kNiceness);
  RawSyscall(SYS_execve, plan.path, plan.argv, plan.envp);
  return kExitNotStarted;
}

// The pipe's ends, away from the standard descriptors, of which the host may have closed some. False: none to be had.
bool OpenPipe(int ends[2]) {
  int low[2];
  if (RawSyscall(SYS_pipe2, low, 0) < 0) return false;
  for (int i = 0; i < 2; i++) {
    ends[i] = static_cast<int>(RawSyscall(SYS_fcntl, low[i], F_DUPFD, kOutOfTheWay));
    RawSyscall(SYS_close, low[i]);
  }
  return ends[0] >= 0 && ends[1] >= 0;
}

// Waits until there is something to read. False: the deadline passed.
bool WaitForOutput(int fd, uint64_t deadline_ns) {
  while (true) {
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) return false;
    const uint64_t left_ns = deadline_ns - now_ns;
    timespec timeout = {static_cast<time_t>(left_ns / 1'000'000'000), static_cast<long>(left_ns % 1'000'000'000)};
    pollfd wanted = {fd, POLLIN, 0};
    const long ready = RawSyscall(SYS_ppoll, &wanted, 1, &timeout, nullptr, sizeof(uint64_t));
    if (ready > 0) return true;
    if (ready < 0 && ready != -EINTR) return false;
  }
}

// All that the program prints, as far as there is room. False: the deadline passed.
bool ReadOutput(Plan* plan, int fd, size_t* size) {
  char rest[512];
  while (WaitForOutput(fd, plan->deadline_ns)) {
    const bool room = *size < kOutputBytes;
    char* to = room ? plan->output + *size : rest;
    const long got = RawSyscall(SYS_read, fd, to, room ? kOutputBytes - *size : sizeof rest);
    if (got == -EINTR) continue;
    if (got <= 0) return true;
    if (room) *size += static_cast<size_t>(got);
  }
  return false;
}

void WriteAll(const char* data, size_t size) {
  while (size > 0) {
    const long written = RawSyscall(SYS_write, STDERR_FILENO, data, size);
    if (written == -EINTR) continue;
    if (written <= 0) return;
    data += written;
    size -= static_cast<size_t>(written);
  }
}

// Starts with every signal blocked.
int Supervisor(void* argument) {
  Plan* plan = static_cast<Plan*>(argument);
  RawSyscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  if (RawSyscall(SYS_getppid) != plan->host_pid) return 1;
  RawSyscall(SYS_prctl, PR_SET_NAME, "gpumemshim-oom");
  CloseHostDescriptors();
  int ends[2];
  if (!OpenPipe(ends)) return 1;
  plan->pipe_write = ends[1];
  plan->supervisor_pid = RawSyscall(SYS_getpid);
  const int program = clone(&BecomeProgram, plan->program_stack + kStackBytes, CLONE_VM | CLONE_VFORK | SIGCHLD, plan);
  RawSyscall(SYS_close, ends[1]);
  if (program < 0) return 1;
  size_t size = 0;
  if (!ReadOutput(plan, ends[0], &size)) RawSyscall(SYS_kill, program, SIGKILL);
  while (RawSyscall(SYS_wait4, program, nullptr, __WALL, nullptr) == -EINTR) {
  }
  WriteAll(plan->output, size);
  return 0;
}

}  // namespace

bool ProbeProcess::Start(const char* path, const char* const* argv, const char* const* envp, uint32_t timeout_ms) {
  return StartWith(path, argv, envp, MonotonicNs() + uint64_t{timeout_ms} * 1'000'000, false);
}

// Its end of the pipe is closed at once, and so nothing is read and no deadline looked at.
bool ProbeProcess::StartBeside(const char* path, const char* const* argv, const char* const* envp) {
  return StartWith(path, argv, envp, UINT64_MAX, true);
}

bool ProbeProcess::StartWith(const char* path, const char* const* argv, const char* const* envp, uint64_t deadline_ns,
                             bool beside) {
  static_assert(std::is_trivially_destructible_v<Plan>);
  if (pid_ != 0 || fcntl(STDERR_FILENO, F_GETFD) < 0) return false;
  if (memory_ == nullptr) {
    void* memory = mmap(nullptr, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    memory_ = memory;
  }
  Plan* plan = static_cast<Plan*>(memory_);
  plan->path = path;
  plan->argv = argv;
  plan->envp = envp;
  plan->deadline_ns = deadline_ns;
  plan->beside = beside;
  plan->host_pid = getpid();
  // The host's handlers may not run in the supervisor either: they would write the host's memory.
  uint64_t every_signal = ~uint64_t{0};
  uint64_t before = 0;
  RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &every_signal, &before, sizeof before);
  const int pid = clone(&Supervisor, plan->supervisor_stack + kStackBytes, CLONE_VM, plan);
  RawSyscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
  pid_ = pid > 0 ? pid : 0;
  return pid > 0;
}

bool ProbeProcess::Running() {
  if (pid_ == 0) return false;
  const long waited = RawSyscall(SYS_wait4, pid_, nullptr, __WCLONE | WNOHANG, nullptr);
  // Not ours any more: a host that waits with __WALL was faster.
  if (waited == pid_ || waited == -ECHILD) pid_ = 0;
  return pid_ != 0;
}

void ProbeProcess::Kill() {
  if (pid_ != 0) RawSyscall(SYS_kill, pid_, SIGKILL);
}

}  // namespace gpumemshim::oom

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Allocates 9 blocks, frees them, allocates 2 and prints a line; then it ends as its arguments say:
//   endings_host NAME [NUMBER]        endings_host --names        endings_host thread NAME [NUMBER]: on a second thread
// What prints goes through C's buffers where the ending flushes them, so what is lost without the recorder is lost with
// it.

#include <cuda_runtime_api.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <stdexcept>

namespace {

sigjmp_buf g_back;

void Allocate(int count, bool free_them) {
  for (int i = 0; i < count; ++i) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, 1 << 20) != cudaSuccess) _exit(70);
    if (free_them) cudaFree(memory);
  }
}

volatile std::uintptr_t g_nowhere = 8;

struct EndsInDestructor {
  bool armed = false;
  ~EndsInDestructor() {
    if (armed) _exit(21);
  }
} g_ends_in_destructor;

[[noreturn]] void Forever() {
  for (;;) pause();
}

void Limit(int which, rlim_t value) {
  const rlimit limit = {value, value};
  setrlimit(which, &limit);
}

void Handle(int number, void (*handler)(int)) {
  signal(number, handler);
  raise(number);
  Forever();
}

__attribute__((noinline)) int Overflow(volatile int* before) {
  volatile int here[1000];
  here[0] = before == nullptr ? 0 : *before + 1;
  if (here[0] == -1) return 0;  // never
  return Overflow(here) + here[0];
}

void BeyondAFile() {
  FILE* file = std::tmpfile();
  auto* memory = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fileno(file), 0));
  Allocate(memory[0], false);
}

void ForbidGetppid() {
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter = {static_cast<unsigned short>(std::size(program)), program};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
  syscall(SYS_getppid);
}

void WriteToNobody() {
  int ends[2];
  if (pipe(ends) != 0) _exit(71);
  close(ends[0]);
  if (write(ends[1], "x", 1) < 0) _exit(72);
}

void WriteTooMuch() {
  Limit(RLIMIT_FSIZE, 10);
  FILE* file = std::tmpfile();
  for (int i = 0; i < 100; ++i) std::fputs("more than ten", file);
  std::fflush(file);
}

void BeKilledByAChild() {
  if (fork() == 0) {
    kill(getppid(), SIGKILL);
    _exit(0);
  }
  Forever();
}

void EndBeforeAChild() {
  if (fork() == 0) {
    usleep(100'000);
    _exit(9);
  }
  std::exit(8);
}

void* EndWithMain(void*) {
  usleep(100'000);
  Allocate(1, true);
  return nullptr;
}

void LeaveMain() {
  pthread_t thread;
  pthread_create(&thread, nullptr, &EndWithMain, nullptr);
  pthread_exit(nullptr);
}

void Throw() { throw std::runtime_error("nobody catches it"); }
void ThrowWhereNobodyMay() noexcept { Throw(); }  // NOLINT(bugprone-exception-escape): an ending, too

struct Ending {
  const char* name;
  void (*end)(int number);
};

constexpr Ending kEndings[] = {
    {"return", [](int) {}},
    {"exit", [](int number) { std::exit(number); }},
    {"_exit", [](int number) { _exit(number); }},
    {"_Exit", [](int number) { std::_Exit(number); }},
    {"quick_exit", [](int number) { std::quick_exit(number); }},
    {"at_quick_exit", [](int) { std::at_quick_exit([] { Allocate(1, true); }), std::quick_exit(4); }},
    {"exit_group", [](int number) { syscall(SYS_exit_group, number); }},
    {"pthread_exit", [](int) { LeaveMain(); }},
    {"abort", [](int) { std::abort(); }},
    {"terminate", [](int) { std::terminate(); }},
    {"throw", [](int) { Throw(); }},
    {"noexcept", [](int) { ThrowWhereNobodyMay(); }},
    {"null", [](int) { *reinterpret_cast<volatile int*>(g_nowhere) = 1; }},
    {"overflow", [](int) { Overflow(nullptr); }},
    {"divide", [](int number) { Allocate(1 / static_cast<volatile int&>(number = 0), false); }},
    {"illegal", [](int) { __builtin_trap(); }},
    {"beyond-a-file", [](int) { BeyondAFile(); }},
    {"raise", [](int number) { raise(number), Forever(); }},
    {"alarm", [](int) { ualarm(1000, 0), Forever(); }},
    {"pipe", [](int) { WriteToNobody(); }},
    {"file-too-large", [](int) { WriteTooMuch(); }},
    {"forbidden-call", [](int) { ForbidGetppid(); }},
    {"exec", [](int) { execl("/bin/sh", "sh", "-c", "exit 13", nullptr); }},
    {"exec-fails", [](int) { execl("/no/such/program", "x", nullptr), std::exit(14); }},
    {"exit-in-atexit", [](int) { std::atexit([] { std::exit(5); }), std::exit(4); }},
    {"_exit-in-atexit", [](int) { std::atexit([] { _exit(6); }), std::exit(4); }},
    {"cuda-in-atexit", [](int) { std::atexit([] { Allocate(2, true); }), std::exit(0); }},
    {"abort-in-atexit", [](int) { std::atexit([] { std::abort(); }), std::exit(0); }},
    {"_exit-in-destructor", [](int) { g_ends_in_destructor.armed = true; }},
    {"exit-in-handler", [](int) { Handle(SIGTERM, [](int) { std::exit(15); }); }},
    {"_exit-in-handler", [](int) { Handle(SIGSEGV, [](int) { _exit(16); }); }},
    {"again-in-handler", [](int) { Handle(SIGINT, [](int) { signal(SIGINT, SIG_DFL), raise(SIGINT); }); }},
    {"jump-from-handler",
     [](int) {
       if (sigsetjmp(g_back, 1) == 0) Handle(SIGSEGV, [](int) { siglongjmp(g_back, 1); });
       std::exit(17);
     }},
    {"reset-device", [](int) { cudaDeviceReset(), std::exit(18); }},
    {"closed-streams", [](int) { std::fclose(stdout), std::fclose(stderr), std::exit(19); }},
    {"killed-by-a-child", [](int) { BeKilledByAChild(); }},
    {"before-a-child", [](int) { EndBeforeAChild(); }},
};

const Ending* Find(const char* name) {
  for (const Ending& ending : kEndings) {
    if (std::strcmp(ending.name, name) == 0) return &ending;
  }
  std::fprintf(stderr, "endings_host: no ending %s\n", name);
  _exit(70);
}

struct Call {
  const Ending* ending;
  int number;
};

void* EndOnThread(void* data) {
  const auto* call = static_cast<const Call*>(data);
  call->ending->end(call->number);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const bool on_thread = argc > 2 && std::strcmp(argv[1], "thread") == 0;
  const int at = on_thread ? 2 : 1;
  if (argc <= at) return 70;
  if (std::strcmp(argv[at], "--names") == 0) {
    for (const Ending& ending : kEndings) std::puts(ending.name);
    return 0;
  }
  Call call = {Find(argv[at]), argc > at + 1 ? std::atoi(argv[at + 1]) : 0};
  Allocate(9, true);
  Allocate(2, false);
  std::printf("at work\n");
  if (!on_thread) return call.ending->end(call.number), 3;
  pthread_t thread;
  pthread_create(&thread, nullptr, &EndOnThread, &call);
  pthread_join(thread, nullptr);
  return 3;
}

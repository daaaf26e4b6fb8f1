// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Allocates and frees in a place that is made as hostile as its arguments say, in their order, and prints what it did:
//   hold            keep libcuda open, so that it is found later
//   chroot DIR      from now on / is DIR
//   seccomp         membarrier, tgkill, memfd_create, close_range and statx fail from now on
//   descriptors     none is left from now on
//   closeall        every descriptor above 2 is closed, and a file of our own takes their numbers
//   remove PATH...  deletes the files that match "PATH*" (a trace that somebody cleans up)
//   work            200 allocations from 60 calls deep, 150 frees
//   thread          the same on a thread with a stack of 64 KiB
//   kill            SIGKILL
//   measure         prints by how many bytes the first call of CUDA makes the address space grow
//   room BYTES      from now on the address space may grow by so much
//   use BYTES       takes so much of it by mmap, and by malloc, and gives it back
//   tiny            work on a thread with the smallest stack, and a handler on a stack of its own
//   prompt          a signal every millisecond from now on
//   wait            long enough for the recorder to write; not at all where there is none
// The exit code is 3.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kDeep = 60;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "host_places: %s failed\n", what);
  std::exit(70);
}

__attribute__((noinline)) int AllocateDeep(int depth, std::size_t bytes, void** memory) {
  if (depth == 0) return cudaMalloc(memory, bytes) == cudaSuccess ? 0 : 1;
  volatile int padding = AllocateDeep(depth - 1, bytes, memory);
  return padding;
}

void Work() {
  std::vector<void*> live;
  for (std::size_t i = 0; i < 200; ++i) {
    void* memory = nullptr;
    if (AllocateDeep(kDeep, (i % 7 + 1) << 16, &memory) != 0) Fail("cudaMalloc");
    live.push_back(memory);
    if (i % 4 == 3) {
      for (int k = 0; k < 3; ++k) {
        if (cudaFree(live.back()) != cudaSuccess) Fail("cudaFree");
        live.pop_back();
      }
    }
  }
  std::printf("work: %zu alive\n", live.size());
  std::fflush(stdout);
}

void* WorkOnThread(void*) {
  Work();
  return nullptr;
}

void SmallThread() {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, 64 << 10) != 0) Fail("a stack of 64 KiB");
  if (pthread_create(&thread, &attributes, &WorkOnThread, nullptr) != 0) Fail("pthread_create");
  pthread_join(thread, nullptr);
}

void Forbid() {
  std::vector<sock_filter> program = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const int call : {SYS_membarrier, SYS_tgkill, SYS_memfd_create, SYS_close_range, SYS_statx}) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    Fail("seccomp");
}

void ExhaustDescriptors() {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 0;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) Fail("setrlimit");
}

// As a daemon does; the file that takes the numbers must stay empty.
void CloseAll() {
  for (int fd = 3; fd < 1024; ++fd) close(fd);
  const int file = open("own.txt", O_RDWR | O_CREAT, 0600);
  if (file < 0) Fail("open");
  for (int fd = file + 1; fd < 1024; ++fd) dup2(file, fd);
}

std::size_t AddressSpace() {
  unsigned long pages = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) Fail("statm");
  std::fclose(file);
  return pages * 4096;
}

void Measure() {
  const std::size_t before = AddressSpace();
  void* memory = nullptr;
  if (cudaMalloc(&memory, 1 << 20) != cudaSuccess) Fail("cudaMalloc");
  std::printf("%zu\n", AddressSpace() - before);
}

void LimitRoom(std::size_t bytes) {
  const rlim_t all = AddressSpace() + bytes;
  const rlimit limit = {all, all};
  if (setrlimit(RLIMIT_AS, &limit) != 0) Fail("setrlimit");
}

void Use(std::size_t bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) Fail("mmap");
  munmap(mapped, bytes);
  void* memory = std::malloc(bytes);
  if (memory == nullptr) Fail("malloc");
  std::memset(memory, 1, bytes);
  std::free(memory);
  std::printf("used\n");
}

volatile sig_atomic_t g_signals = 0;
void CountSignal(int) { g_signals = g_signals + 1; }

void OnOwnStack(int signal_number) {
  static char stack[16384];
  const stack_t own = {stack, 0, sizeof stack};
  struct sigaction action = {};
  action.sa_handler = &CountSignal;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  if (sigaltstack(&own, nullptr) != 0 || sigaction(signal_number, &action, nullptr) != 0) Fail("sigaltstack");
}

void* LittleWork(void*) {
  for (int i = 0; i < 175; ++i) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, 4096) != cudaSuccess || cudaFree(memory) != cudaSuccess) _exit(71);
    if (i % 10 == 0) raise(SIGUSR1);
  }
  return nullptr;
}

void TinyThread() {
  OnOwnStack(SIGUSR1);
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  // As small as may be, and what CUDA needs itself.
  if (pthread_attr_setstacksize(&attributes, static_cast<std::size_t>(PTHREAD_STACK_MIN) + (16 << 10)) != 0)
    Fail("a tiny stack");
  if (pthread_create(&thread, &attributes, &LittleWork, nullptr) != 0) Fail("pthread_create");
  pthread_join(thread, nullptr);
}

void Prompt() {
  OnOwnStack(SIGALRM);
  const itimerval every = {{0, 1000}, {0, 1000}};
  if (setitimer(ITIMER_REAL, &every, nullptr) != 0) Fail("setitimer");
}

void Remove(const std::string& pattern) {
  glob_t found;
  if (glob((pattern + "*").c_str(), 0, nullptr, &found) != 0) return;
  for (std::size_t i = 0; i < found.gl_pathc; ++i) unlink(found.gl_pathv[i]);
  globfree(&found);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string action = argv[i];
    if (action == "hold") {
      if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr) Fail("dlopen");
    } else if (action == "chroot" && i + 1 < argc) {
      if (chroot(argv[++i]) != 0 || chdir("/") != 0) Fail("chroot");
    } else if (action == "remove" && i + 1 < argc) {
      Remove(argv[++i]);
    } else if (action == "seccomp") {
      Forbid();
    } else if (action == "descriptors") {
      ExhaustDescriptors();
    } else if (action == "closeall") {
      CloseAll();
    } else if (action == "measure") {
      Measure();
    } else if (action == "room" && i + 1 < argc) {
      LimitRoom(std::strtoul(argv[++i], nullptr, 10));
    } else if (action == "use" && i + 1 < argc) {
      Use(std::strtoul(argv[++i], nullptr, 10));
    } else if (action == "tiny") {
      TinyThread();
    } else if (action == "prompt") {
      Prompt();
    } else if (action == "kill") {
      kill(getpid(), SIGKILL);
    } else if (action == "work") {
      Work();
    } else if (action == "thread") {
      SmallThread();
    } else if (action == "wait") {
      if (dlsym(RTLD_DEFAULT, "gpumemshim_get_api_v1") != nullptr) usleep(150'000);
    } else {
      Fail(argv[i]);
    }
  }
  return 3;
}

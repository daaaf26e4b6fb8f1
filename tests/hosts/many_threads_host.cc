// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Threads that allocate and free once, and how often they asked the kernel whether another one is alive:
//   many_threads_host together THREADS   all of them are alive when the last one begins
//   many_threads_host after THREADS      each begins when the one before has ended, eight at a time
//
// Prints the calls of tgkill that its own threads made (not the recorder's), and the most memory that it had. They are
// counted by a seccomp filter: each raises SIGSYS, whose handler makes the call again with a mark that lets it through.

#include <cuda_runtime_api.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr long kMark = 0x6d61726b;
constexpr int kAtATime = 8;

std::atomic<long> g_asked{0};
std::atomic<bool> g_may_end{false};

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "many_threads_host: %s failed\n", what);
  std::exit(70);
}

void OnCall(int, siginfo_t*, void* context) {
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  g_asked.fetch_add(1, std::memory_order_relaxed);
  const long result = syscall(SYS_tgkill, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], kMark);
  registers[REG_RAX] = result < 0 ? -errno : result;
}

void CountCalls() {
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_sigaction = &OnCall;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSYS, &action, nullptr);
  constexpr auto kNumber = static_cast<unsigned>(offsetof(seccomp_data, nr));
  constexpr auto kFourth = static_cast<unsigned>(offsetof(seccomp_data, args) + 3 * sizeof(__u64));
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFourth),  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kMark, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)};
  const sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    Fail("seccomp");
  }
}

void* AllocateOnce(void* stays) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, 4096) != cudaSuccess || cudaFree(memory) != cudaSuccess) Fail("cudaMalloc");
  if (stays != nullptr) g_may_end.wait(false);
  return nullptr;
}

pthread_t Begin(bool stays) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 128 << 10);
  if (pthread_create(&thread, &attributes, &AllocateOnce, stays ? &g_may_end : nullptr) != 0) Fail("pthread_create");
  pthread_attr_destroy(&attributes);
  return thread;
}

void Run(bool together, int count) {
  std::vector<pthread_t> threads;
  for (int i = 0; i < count; ++i) {
    threads.push_back(Begin(together));
    if (together || threads.size() < kAtATime) continue;
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
    threads.clear();
  }
  g_may_end.store(true);
  g_may_end.notify_all();
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) Fail("reading the arguments");
  AllocateOnce(nullptr);  // the recorder's own threads begin here, and are not counted
  CountCalls();
  Run(std::strcmp(argv[1], "together") == 0, std::atoi(argv[2]));
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf("%ld %ld\n", g_asked.load(), used.ru_maxrss);
  return 0;
}

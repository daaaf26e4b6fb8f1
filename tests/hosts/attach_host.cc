// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Programs to which `gpumemshim attach` comes while they run: attach_host WAY FILE [PLUGIN]. Each works until FILE
// exists, and ends with 0 where nothing of what it did went wrong.
//
//   malloc    eight threads take and give back memory in a tight loop; the first one waits for them
//   compute   one thread adds vectors and compares the sums, without any call
//   sleep     one thread in nanosleep, whose sleeps must be of full length
//   signals   one thread computes under a timer whose handler allocates nothing
//   driver    CUDA through the driver, found by dlsym before anybody attached; prints what it holds
//   fails     the same, and after a while it asks for more than there is
//   waits     the same, after the driver has waited for the GPU until FILE exists
//   events    the only thread is in epoll_wait, which must end by itself alone: with a line of input
//   private   sleep, and nobody may trace it (PR_SET_DUMPABLE)
//   loads     two threads load PLUGIN, let it use CUDA and unload it, bound lazily and at once
//   later     PLUGIN is loaded when its second line of input comes, and uses CUDA from then on

#include <cuda.h>
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

const char* g_file;
std::atomic<bool> g_over;
std::atomic<uint64_t> g_ticks;

bool IsOver() { return access(g_file, F_OK) == 0; }

void Watch() {
  while (!IsOver()) usleep(2000);
  g_over = true;
}

int Malloc() {
  std::atomic<int> errors{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t, &errors] {
      unsigned seed = static_cast<unsigned>(t);
      while (!g_over) {
        char* kept[64] = {};
        for (char*& each : kept) {
          const size_t size = 16 + static_cast<size_t>(rand_r(&seed)) % 6000;
          each = static_cast<char*>(malloc(size));
          memset(each, t, size);
        }
        for (char* each : kept) {
          if (each[15] != static_cast<char>(t)) ++errors;
          free(each);
        }
      }
    });
  }
  Watch();
  for (std::thread& thread : threads) thread.join();
  return errors == 0 ? 0 : 2;
}

// Registers of all kinds are in use at each moment.
int Compute() {
  std::thread watcher(Watch);
  alignas(64) double a[256], b[256];
  for (int i = 0; i < 256; ++i) a[i] = b[i] = i * 0.5;
  double expected = 0;
  for (int i = 0; i < 256; ++i) expected += a[i] * b[i] + i;
  int errors = 0;
  while (!g_over) {
    double sum = 0;
    for (int i = 0; i < 256; ++i) sum += a[i] * b[i] + i;
    if (sum != expected) ++errors;
  }
  watcher.join();
  return errors == 0 ? 0 : 3;
}

int Sleep() {
  while (!IsOver()) {
    timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    const timespec time{0, 50'000'000};
    if (nanosleep(&time, nullptr) != 0) return 4;
    clock_gettime(CLOCK_MONOTONIC, &end);
    if ((end.tv_sec - start.tv_sec) * 1'000'000'000L + end.tv_nsec - start.tv_nsec < 50'000'000L) return 5;
  }
  return 0;
}

// An event loop without a timer. Ends with its input; a call that ends without an event has noticed us.
int Events() {
  const int loop = epoll_create1(0);
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  if (epoll_ctl(loop, EPOLL_CTL_ADD, STDIN_FILENO, &wanted) != 0) return 13;
  for (;;) {
    epoll_event seen{};
    if (epoll_wait(loop, &seen, 1, -1) != 1) return 14;
    char text[64];
    if (read(STDIN_FILENO, text, sizeof text) <= 0) return 0;
  }
}

int Signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_ticks.fetch_add(1); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval timer{{0, 500}, {0, 500}};
  setitimer(ITIMER_REAL, &timer, nullptr);
  const int code = Compute();
  return code != 0 ? code : g_ticks > 10 ? 0 : 6;
}

// As the driver waits by default.
void CUDA_CB AwaitGpu(void*) {
  for (int i = 0; i % 256 != 0 || !IsOver(); ++i) sched_yield();
}

int Driver(bool asks_too_much, bool waits) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto find = [driver](const char* name) { return driver == nullptr ? nullptr : dlsym(driver, name); };
  static const auto init = reinterpret_cast<decltype(&cuInit)>(find("cuInit"));
  static const auto retain = reinterpret_cast<decltype(&cuDevicePrimaryCtxRetain)>(find("cuDevicePrimaryCtxRetain"));
  static const auto set = reinterpret_cast<decltype(&cuCtxSetCurrent)>(find("cuCtxSetCurrent"));
  static auto allocate = reinterpret_cast<decltype(&cuMemAlloc)>(find("cuMemAlloc_v2"));
  static auto release = reinterpret_cast<decltype(&cuMemFree)>(find("cuMemFree_v2"));
  CUcontext context = nullptr;
  if (init == nullptr || init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS) return 7;
  set(context);
  CUdeviceptr before = 0;
  allocate(&before, 3 << 20);
  puts("ready");
  fflush(stdout);
  uint64_t count = 0;
  if (waits) {
    const auto launch = reinterpret_cast<decltype(&cuLaunchHostFunc)>(find("cuLaunchHostFunc"));
    const auto wait = reinterpret_cast<decltype(&cuStreamSynchronize)>(find("cuStreamSynchronize"));
    if (launch(nullptr, &AwaitGpu, nullptr) != CUDA_SUCCESS || wait(nullptr) != CUDA_SUCCESS) return 15;
    CUdeviceptr memory = 0;
    if (allocate(&memory, 7 << 20) == CUDA_SUCCESS) ++count;
    release(memory);
  }
  while (!IsOver()) {
    CUdeviceptr memory = 0;
    if (allocate(&memory, 5 << 20) != CUDA_SUCCESS) return 8;
    release(memory);
    if (asks_too_much && ++count > 1000 && allocate(&memory, size_t{1} << 50) == CUDA_SUCCESS) return 12;
    ++count;
    usleep(200);
  }
  release(before);
  return count == 0 ? 9 : 0;
}

bool UsePlugin(void* plugin) {
  const auto use = plugin == nullptr ? nullptr : reinterpret_cast<void (*)()>(dlsym(plugin, "UsePluginMemory"));
  if (use != nullptr) use();
  return use != nullptr;
}

int Loads(const char* file) {
  std::atomic<int> errors{0};
  const auto work = [file, &errors](int flags) {
    while (!IsOver()) {
      void* const plugin = dlopen(file, flags | RTLD_LOCAL);
      if (!UsePlugin(plugin)) ++errors;
      if (plugin != nullptr) dlclose(plugin);
    }
  };
  dlopen("libcuda.so.1", RTLD_NOW);  // stays
  std::thread other(work, RTLD_NOW);
  work(RTLD_LAZY);
  other.join();
  return errors == 0 ? 0 : 10;
}

int Later(const char* file) {
  getchar();
  void* const plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  while (!IsOver()) {
    if (!UsePlugin(plugin)) return 11;
    usleep(2000);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const way = argc < 2 ? "" : argv[1];
  if (argc < 3 || (way[0] == 'l' && argc < 4)) return 64;
  g_file = argv[2];
  const bool asks_too_much = strcmp(way, "fails") == 0, waits = strcmp(way, "waits") == 0;
  const bool is_private = strcmp(way, "private") == 0;
  if (is_private) prctl(PR_SET_DUMPABLE, 0);
  if (strcmp(way, "driver") == 0 || asks_too_much || waits) return Driver(asks_too_much, waits);
  puts("ready");
  fflush(stdout);
  if (strcmp(way, "malloc") == 0) return Malloc();
  if (strcmp(way, "compute") == 0) return Compute();
  if (strcmp(way, "sleep") == 0 || is_private) return Sleep();
  if (strcmp(way, "events") == 0) return Events();
  if (strcmp(way, "signals") == 0) return Signals();
  if (strcmp(way, "loads") == 0) return Loads(argv[3]);
  if (strcmp(way, "later") == 0) return Later(argv[3]);
  return 64;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "processes_host.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace victim {
namespace {

constexpr std::size_t kBlockBytes = 1 << 20;

std::mutex g_lock;
std::vector<void*> g_blocks;
std::atomic<long> g_churned{0};

void Allocate(long count) {
  for (long i = 0; i < count; ++i) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, kBlockBytes) != cudaSuccess) Fail("cudaMalloc");
    const std::lock_guard<std::mutex> hold(g_lock);
    g_blocks.push_back(memory);
  }
}

void FreeAll() {
  const std::lock_guard<std::mutex> hold(g_lock);
  for (void* memory : g_blocks) cudaFree(memory);
  g_blocks.clear();
}

// What a forked child gets from a driver that its parent had initialised.
void ExpectRefusal() {
  void* memory = nullptr;
  if (cudaMalloc(&memory, kBlockBytes) != cudaErrorInitializationError) Fail("cudaMalloc in a child of CUDA");
  cudaGetLastError();
}

// So often that threads are in the middle of it when the process goes, and no oftener: on a busy machine eight of them
// can fill the recorder's ring (80,000 events) before its one writer comes to run, and then calls are dropped.
constexpr int kChurns = 2000;

void Churn() {
  for (int i = 0; i < kChurns; ++i) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, kBlockBytes) == cudaSuccess) cudaFree(memory);
    g_churned.fetch_add(1, std::memory_order_relaxed);
  }
  for (;;) pause();
}

// Eight threads that allocate and free while the process goes. Returns once they have done so `times`, at most kChurns.
void ChurnInThreads(long times) {
  for (int i = 0; i < 8; ++i) std::thread(&Churn).detach();
  while (g_churned.load(std::memory_order_relaxed) < times) usleep(1000);
}

void InThread(const Words& block, bool join) {
  std::thread thread([block] { Do(block); });
  if (join) {
    thread.join();
  } else {
    thread.detach();
  }
}

void UsePlugin(const std::string& path, bool unload) {
  void* plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) Fail(dlerror());
  reinterpret_cast<void (*)()>(dlsym(plugin, "UsePluginMemory"))();
  if (unload && dlclose(plugin) != 0) Fail("dlclose");
}

void CheckFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (file < 0) Fail("open");
  std::printf("opened %d\n", file);
  usleep(300'000);  // let the recorder write what it wants to write
  struct stat status;
  std::printf("size %ld\n", fstat(file, &status) == 0 ? static_cast<long>(status.st_size) : -1L);
}

// A trace of this process in the working directory that something was written to. Without the recorder nobody writes
// one.
bool HasTrace() {
  glob_t found = {};
  const std::string pattern = "*." + std::to_string(getpid()) + ".*gmtrace";
  bool written = false;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat status;
      written = written || (stat(found.gl_pathv[i], &status) == 0 && status.st_size > 0);
    }
  }
  globfree(&found);
  return written;
}

// However long it takes: a machine may be busy for minutes, and the test has a limit of its own.
template <typename Condition>
void WaitUntil(Condition condition) {
  while (!condition()) usleep(5'000);
}

void WaitForTrace() {
  if (dlsym(RTLD_DEFAULT, "gpumemshim_get_api_v1") != nullptr) WaitUntil(&HasTrace);
}

void WaitForBlocks(std::size_t count) {
  WaitUntil([count] {
    const std::lock_guard<std::mutex> hold(g_lock);
    return g_blocks.size() >= count;
  });
}

std::string Text(const std::string& word) { return word.substr(word.find(':') + 1); }

bool DoMemory(std::string_view name, const std::string& word) {
  int count = 0;
  if (name == "init") {
    if (cudaGetDeviceCount(&count) != cudaSuccess) Fail("cudaGetDeviceCount");
  } else if (name == "alloc") {
    Allocate(Number(word));
  } else if (name == "free") {
    FreeAll();
  } else if (name == "refused") {
    ExpectRefusal();
  } else if (name == "allocated") {
    WaitForBlocks(static_cast<std::size_t>(Number(word)));
  } else if (name == "churn") {
    ChurnInThreads(Number(word));
  } else if (name == "plugin" || name == "keep") {
    UsePlugin(Text(word), name == "plugin");
  } else {
    return false;
  }
  return true;
}

bool DoPlain(std::string_view name, const std::string& word) {
  if (name == "print") {
    std::puts(Text(word).c_str());
  } else if (name == "sleep") {
    usleep(static_cast<useconds_t>(Number(word)) * 1000);
  } else if (name == "written") {
    WaitForTrace();
  } else if (name == "await") {
    WaitUntil([path = Text(word)] { return access(path.c_str(), F_OK) == 0; });
  } else if (name == "setenv") {
    const std::string pair = Text(word);
    setenv(pair.substr(0, pair.find('=')).c_str(), pair.substr(pair.find('=') + 1).c_str(), 1);
  } else if (name == "closeall") {
    for (int file = 3; file < 4096; ++file) close(file);
  } else if (name == "file") {
    CheckFile(Text(word));
  } else if (name == "user") {
    const auto id = static_cast<unsigned>(Number(word));
    if (setgroups(0, nullptr) != 0 || setgid(id) != 0 || setuid(id) != 0) Fail("setuid");
  } else {
    return false;
  }
  std::fflush(stdout);
  return true;
}

// The words up to the bracket that closes the one at `at`; moves `at` behind it.
Words Block(const Words& words, std::size_t* at) {
  Words block;
  int depth = 1;
  for (++*at; *at < words.size(); ++*at) {
    if (words[*at] == "(") ++depth;
    if (words[*at] == ")" && --depth == 0) break;
    block.push_back(words[*at]);
  }
  return block;
}

}  // namespace

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "processes_host: %s failed\n", what);
  _exit(70);
}

long Number(std::string_view word) {
  const std::size_t colon = word.find(':');
  return colon == std::string_view::npos ? 0 : std::atol(word.data() + colon + 1);
}

void Do(const Words& words) {
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    const std::string_view name = std::string_view(word).substr(0, word.find(':'));
    Words block;
    if (at + 1 < words.size() && words[at + 1] == "(") block = Block(words, &++at);
    if (name == "thread" || name == "detached") {
      InThread(block, name == "thread");
    } else if (!DoMemory(name, word) && !DoPlain(name, word) && !DoChild(name, word, block) && !DoEnding(name, word) &&
               !DoBadEnding(name, word)) {
      Fail(word.c_str());
    }
  }
}

}  // namespace victim

int main(int argc, char** argv) {
  victim::Do(victim::Words(argv + 1, argv + argc));
  return 0;
}

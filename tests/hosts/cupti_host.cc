// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A program that uses CUPTI itself, as a profiler does, and loads CUDA's libraries only on request. Its words
// are done one after the other; each that answers prints its answer:
//
//   runtime NAME   loads libcudart       cupti NAME    loads libcupti
//   alloc N        N blocks of 1 MiB     free          all of them
//   subscribe      cuptiSubscribe        unsubscribe
//   watch          asks for CUPTI's records of memory, in buffers of its own
//   count          how many it got until now, of all kinds
//   unwatch        switches them off     close-runtime, close-cupti: dlclose
//   sleep MS       throw                 _exit CODE

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace {

constexpr uint32_t kMemory2 = 49;
constexpr size_t kBufferBytes = 64 << 10;

void* g_runtime = nullptr;
void* g_cupti = nullptr;
void* g_subscriber = nullptr;
std::vector<void*> g_blocks;
std::atomic<int> g_records{0};

template <typename Function>
Function Get(void* library, const char* name) {
  const auto function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    std::printf("no %s\n", name);
    std::exit(70);
  }
  return function;
}

void Request(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(std::malloc(kBufferBytes));
  *size = kBufferBytes;
  *most = 0;
}

void Complete(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const auto next = Get<int (*)(uint8_t*, size_t, void**)>(g_cupti, "cuptiActivityGetNextRecord");
  for (void* record = nullptr; valid != 0 && next(buffer, valid, &record) == 0;) ++g_records;
  std::free(buffer);
}

void OnCall(void*, int, uint32_t, const void*) {}

int Subscribe() {
  const auto subscribe =
      Get<int (*)(void**, void (*)(void*, int, uint32_t, const void*), void*)>(g_cupti, "cuptiSubscribe");
  return subscribe(&g_subscriber, &OnCall, nullptr);
}

int Watch() {
  using RequestBuffer = void (*)(uint8_t**, size_t*, size_t*);
  using CompleteBuffer = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);
  const int result =
      Get<int (*)(RequestBuffer, CompleteBuffer)>(g_cupti, "cuptiActivityRegisterCallbacks")(&Request, &Complete);
  return result != 0 ? result : Get<int (*)(uint32_t)>(g_cupti, "cuptiActivityEnable")(kMemory2);
}

int Count() {
  Get<int (*)(uint32_t)>(g_cupti, "cuptiActivityFlushAll")(1);
  return g_records;
}

int Allocate(int count) {
  const auto allocate = Get<int (*)(void**, size_t)>(g_runtime, "cudaMalloc");
  int result = 0;
  for (int i = 0; i < count && result == 0; ++i) {
    void* block = nullptr;
    result = allocate(&block, 1 << 20);
    g_blocks.push_back(block);
  }
  return result;
}

int Free() {
  const auto release = Get<int (*)(void*)>(g_runtime, "cudaFree");
  int result = 0;
  for (void* block : g_blocks) result |= release(block);
  g_blocks.clear();
  return result;
}

void* Load(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    std::exit(71);
  }
  return library;
}

// The words that print what CUDA or CUPTI answered. -1: it is none of them.
int Answer(const char* word, const char* next) {
  if (std::strcmp(word, "alloc") == 0) return Allocate(std::atoi(next));
  if (std::strcmp(word, "free") == 0) return Free();
  if (std::strcmp(word, "subscribe") == 0) return Subscribe();
  if (std::strcmp(word, "unsubscribe") == 0) return Get<int (*)(void*)>(g_cupti, "cuptiUnsubscribe")(g_subscriber);
  if (std::strcmp(word, "watch") == 0) return Watch();
  if (std::strcmp(word, "unwatch") == 0) return Get<int (*)(uint32_t)>(g_cupti, "cuptiActivityDisable")(kMemory2);
  if (std::strcmp(word, "count") == 0) return Count();
  if (std::strcmp(word, "close-runtime") == 0) return dlclose(g_runtime);
  if (std::strcmp(word, "close-cupti") == 0) return dlclose(g_cupti);
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const char* const word = argv[i];
    const char* const next = i + 1 < argc ? argv[i + 1] : "";
    if (std::strcmp(word, "runtime") == 0) {
      g_runtime = Load(argv[++i]);
    } else if (std::strcmp(word, "cupti") == 0) {
      g_cupti = Load(argv[++i]);
    } else if (std::strcmp(word, "sleep") == 0) {
      usleep(static_cast<useconds_t>(std::atoi(argv[++i])) * 1000);
    } else if (std::strcmp(word, "throw") == 0) {
      std::fflush(stdout);
      throw std::runtime_error("thrown");
    } else if (std::strcmp(word, "_exit") == 0) {
      std::fflush(stdout);
      _exit(std::atoi(next));
    } else {
      const int answer = Answer(word, next);
      if (answer == -1) return 64;
      std::printf("%s %d\n", word, answer);
      if (std::strcmp(word, "alloc") == 0) ++i;
    }
  }
  return 0;
}

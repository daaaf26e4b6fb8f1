// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Built by sanitizers_test.py with one sanitizer or linker option each. Prints what it finds, and never what depends on
// addresses or on what memory held before:
//   plain    constructors, threads, exceptions, a fork, dlopen, look-ups that succeed and that fail; no CUDA
//   cuda     the same, then memory of libcuda.so.1: 650 allocations, 500 frees
//   free     uses memory that was freed      race    two threads, one variable      unset    reads what nobody wrote
//   leak     loses memory                    shift   shifts by more than there are bits
// The exit code is 3 where nobody ends it before.

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int g_early = 0;
int g_shared = 0;
int (*g_allocate)(unsigned long* address, std::size_t bytes);
int (*g_free)(unsigned long address);

__attribute__((constructor)) void LookUpEarly() {
  g_early = (dlsym(RTLD_DEFAULT, "malloc") != nullptr) + (dlsym(RTLD_NEXT, "free") != nullptr);
  if (dlsym(RTLD_DEFAULT, "cuInit") == nullptr) dlerror();
}

int CountObject(dl_phdr_info*, std::size_t, void* count) {
  ++*static_cast<int*>(count);
  return 0;
}

void* LookUpInThread(void* found) {
  void* library = dlopen("libm.so.6", RTLD_NOW);
  *static_cast<bool*>(found) = library != nullptr && dlsym(library, "cos") != nullptr;
  if (library != nullptr) dlclose(library);
  return nullptr;
}

template <typename Argument>
void InThreads(void* (*work)(void*), Argument* arguments, int count) {
  pthread_t threads[8];
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], nullptr, work, &arguments[i]);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
}

void Throw(int depth) {
  if (depth == 0) throw 17;
  Throw(depth - 1);
}

void Plain() {
  std::printf("early %d\n", g_early);
  try {
    Throw(5);
  } catch (int thrown) {
    std::printf("caught %d\n", thrown);
  }
  bool found[4] = {};
  InThreads(&LookUpInThread, found, 4);
  std::printf("in threads %d%d%d%d\n", found[0], found[1], found[2], found[3]);
  int objects = 0;
  dl_iterate_phdr(&CountObject, &objects);
  std::printf("objects %d\n", objects > 2);
  std::printf("nothing %d", dlsym(RTLD_DEFAULT, "gpumemshim_no_such_function") == nullptr);
  std::printf(", an error %d\n", dlerror() != nullptr);
  std::printf("cuda behind us %d, with a version %d\n", dlsym(RTLD_NEXT, "cudaMalloc") != nullptr,
              dlvsym(RTLD_DEFAULT, "printf", "GLIBC_2.2.5") != nullptr);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    delete[] new char[30];
    _exit(dlsym(RTLD_DEFAULT, "puts") != nullptr ? 7 : 8);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d\n", WEXITSTATUS(status));
}

// Deep, over a frame that is written in part: what a checker knows of these addresses it must not hold against others.
__attribute__((noinline)) int AllocateDeep(int depth, unsigned long* address, std::size_t bytes) {
  volatile char partly[300];
  partly[depth] = 1;
  if (depth == 0) return g_allocate(address, bytes);
  const int result = AllocateDeep(depth - 1, address, bytes);
  return result + partly[depth] - 1;
}

void* UseMemory(void*) {
  for (int i = 0; i < 50; ++i) {
    unsigned long first = 0, second = 0;
    if (AllocateDeep(i % 20, &first, 1000u * (static_cast<unsigned>(i) + 1)) != 0) std::abort();
    if (i % 5 < 3 && g_allocate(&second, 5) != 0) std::abort();
    g_free(first);
    if (second != 0 && i % 5 != 0) g_free(second);
  }
  return nullptr;
}

void Cuda() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) std::abort();
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  g_allocate = reinterpret_cast<decltype(g_allocate)>(dlsym(driver, "cuMemAlloc_v2"));
  g_free = reinterpret_cast<decltype(g_free)>(dlsym(driver, "cuMemFree_v2"));
  std::printf("cuda %d\n", init(0));
  UseMemory(nullptr);
  int none[4] = {};
  InThreads(&UseMemory, none, 4);
  usleep(150'000);  // the recorder writes meanwhile
}

void* Race(void*) {
  for (int i = 0; i < 1000; ++i) g_shared += i;
  return nullptr;
}

int Bug(const char* which) {
  volatile int one = 1;
  if (std::strcmp(which, "free") == 0) {
    int* memory = new int[4];
    delete[] memory;
    g_shared = memory[one];
  } else if (std::strcmp(which, "race") == 0) {
    int none[2] = {};
    InThreads(&Race, none, 2);
  } else if (std::strcmp(which, "unset") == 0) {
    int* memory = static_cast<int*>(std::malloc(40));
    if (memory[one] == 12345) g_shared = 1;
    std::free(memory);
  } else if (std::strcmp(which, "leak") == 0) {
    for (int i = 0; i < 20; ++i) std::memset(new char[100], 0, static_cast<std::size_t>(one));
  } else if (std::strcmp(which, "shift") == 0) {
    g_shared = one << (one * 40);
  } else {
    return 70;
  }
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  int code = 3;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "plain") == 0) {
      Plain();
    } else if (std::strcmp(argv[i], "cuda") == 0) {
      Cuda();
    } else {
      code = Bug(argv[i]);
    }
  }
  return code;
}

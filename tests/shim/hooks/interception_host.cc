// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Run under the preload by preload_test.py: interception_host <what>. Prints what went wrong and exits 1, or exits 0.

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

int g_failures = 0;

void Check(bool good, const char* what, int line) {
  if (good) return;
  std::printf("line %d: %s\n", line, what);
  ++g_failures;
}
#define CHECK(condition) Check(condition, #condition, __LINE__)

using Init = int (*)(unsigned);
using Alloc = int (*)(unsigned long long*, size_t);
using Free = int (*)(unsigned long long);
using Resolve = int (*)(const char*, void**, int, unsigned long long);
using Resolve2 = int (*)(const char*, void**, int, unsigned long long, int*);

std::string LibraryOf(void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0) return "(none)";
  const char* slash = std::strrchr(info.dli_fname, '/');
  return slash == nullptr ? info.dli_fname : slash + 1;
}
bool IsOurs(void* address) { return LibraryOf(address) == "libgpumemshim.so"; }

void* Driver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); }

template <typename Function>
Function Find(const char* name) {
  return reinterpret_cast<Function>(dlsym(Driver(), name));
}

void Lookups() {
  CHECK(dlsym(RTLD_DEFAULT, "cuInit") == nullptr);  // a program tests for CUDA like this before it loads it
  CHECK(dlerror() != nullptr);
  CHECK(dlsym(RTLD_NEXT, "cuInit") == nullptr || IsOurs(dlsym(RTLD_NEXT, "cuInit")));
  CHECK(LibraryOf(dlsym(RTLD_NEXT, "malloc")).find("libc.so") == 0);
  CHECK(dlsym(RTLD_DEFAULT, "no_such_function_at_all") == nullptr);
  CHECK(std::string(dlerror()).find("no_such_function_at_all") != std::string::npos);

  void* driver = Driver();
  CHECK(driver != nullptr);
  CHECK(IsOurs(dlsym(driver, "cuMemAlloc_v2")));
  CHECK(IsOurs(dlsym(driver, "cuInit")));
  CHECK(LibraryOf(dlsym(driver, "cuMemGetInfo_v2")) == "libcuda.so.1");
  CHECK(dlsym(driver, "cuMemCreate") == nullptr);  // ours, but this driver has none
  CHECK(dlvsym(driver, "cuMemAlloc_v2", "NO_SUCH_VERSION") == nullptr);
  CHECK(LibraryOf(dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.14")).find("libc.so") == 0);
}

void ProcAddress() {
  const auto resolve2 = Find<Resolve2>("cuGetProcAddress_v2");
  const auto resolve = Find<Resolve>("cuGetProcAddress");
  CHECK(IsOurs(reinterpret_cast<void*>(resolve2)));
  void* found = nullptr;
  int status = -1;
  CHECK(resolve2("cuMemAlloc", &found, 13000, 0, &status) == 0 && status == 0);
  CHECK(found == dlsym(Driver(), "cuMemAlloc_v2"));
  CHECK(resolve2("cuMemAlloc", &found, 2000, 0, nullptr) == 0);
  CHECK(IsOurs(found) && found == dlsym(Driver(), "cuMemAlloc"));
  CHECK(resolve("cuMemAlloc", &found, 13000, 0) == 0 && IsOurs(found));
  CHECK(resolve2("cuMemGetInfo", &found, 13000, 0, nullptr) == 0 && LibraryOf(found) == "libcuda.so.1");
  CHECK(resolve2("cuGetProcAddress", &found, 12000, 0, nullptr) == 0 && found == reinterpret_cast<void*>(resolve2));
  CHECK(resolve2("cuGetProcAddress", &found, 11030, 0, nullptr) == 0 && found == reinterpret_cast<void*>(resolve));
  CHECK(resolve2("cuNoSuchThing", &found, 13000, 0, &status) == 0 && found == nullptr && status == 1);
}

// 2 allocations, 1 failure, 2 frees; freeing 0 is not an event. With an out parameter of NULL: one more.
void Calls() {
  CHECK(Find<Init>("cuInit")(0) == 0);
  const auto alloc = Find<Alloc>("cuMemAlloc_v2");
  const auto release = Find<Free>("cuMemFree_v2");
  unsigned long long a = 0;
  unsigned long long b = 0;
  errno = 77;
  CHECK(alloc(&a, 1 << 20) == 0 && alloc(&b, 4096) == 0 && a != 0 && b != a);
  CHECK(alloc(&b, size_t{1} << 41) == 2);
  CHECK(release(a) == 0 && release(b) == 0 && release(0) == 0);
  CHECK(alloc(nullptr, 16) == 0);
  CHECK(errno == 77);
}

void Runtime() {
  void* user = dlopen("libruntime_user.so", RTLD_NOW | RTLD_LOCAL);
  CHECK(user != nullptr);
  if (user == nullptr) return;
  CHECK(dlsym(RTLD_DEFAULT, "UseRuntime") == nullptr);
  CHECK(reinterpret_cast<int (*)(int)>(dlsym(user, "UseRuntime"))(10) == 0);
}

// Two runtimes in one process: each library's calls reach the one that it was linked with.
void Runtimes() {
  const struct {
    const char* user;
    const char* runtime;
    int calls;
  } kPairs[] = {{"libruntime_user.so", "libcudart.so.13", 3}, {"libruntime_user_12.so", "libcudart.so.12", 5}};
  for (const auto& pair : kPairs) {
    void* user = dlopen(pair.user, RTLD_NOW | RTLD_LOCAL);
    CHECK(user != nullptr);
    if (user == nullptr) return;
    CHECK(reinterpret_cast<int (*)(int)>(dlsym(user, "UseRuntime"))(pair.calls) == 0);
  }
  for (const auto& pair : kPairs) {
    void* runtime = dlopen(pair.runtime, RTLD_NOW | RTLD_NOLOAD);
    CHECK(runtime != nullptr);
    if (runtime == nullptr) return;
    CHECK(reinterpret_cast<int (*)()>(dlsym(runtime, "FakeRuntimeCalls"))() == pair.calls);
  }
}

void Threads() {
  CHECK(Find<Init>("cuInit")(0) == 0);
  const auto alloc = Find<Alloc>("cuMemAlloc_v2");
  const auto release = Find<Free>("cuMemFree_v2");
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        unsigned long long address = 0;
        alloc(&address, 512);
        release(address);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The child is silent and leaves no file, although it inherits everything; the parent goes on.
void Fork() {
  Calls();
  const pid_t child = fork();
  if (child == 0) {
    unsigned long long address = 0;
    Find<Alloc>("cuMemAlloc_v2")(&address, 1);
    std::exit(g_failures);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  Calls();
}

// A child that starts CUDA by itself gets a trace of its own.
void ForkThenInit() {
  Calls();
  const pid_t child = fork();
  if (child == 0) {
    Calls();
    std::exit(g_failures);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void Exceptions() {
  Calls();
  int caught = 0;
  for (int i = 0; i < 100; ++i) {
    try {
      throw std::runtime_error("host");
    } catch (const std::exception&) {
      ++caught;
    }
  }
  CHECK(caught == 100);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "nothing") return 0;
  if (what == "lookups") Lookups();
  if (what == "proc_address") ProcAddress();
  if (what == "calls") Calls();
  if (what == "runtime") Runtime();
  if (what == "runtimes") Runtimes();
  if (what == "threads") Threads();
  if (what == "fork") Fork();
  if (what == "fork_then_init") ForkThenInit();
  if (what == "exceptions") Exceptions();
  return g_failures == 0 ? 0 : 1;
}

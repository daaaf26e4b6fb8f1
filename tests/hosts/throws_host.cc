// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// throws_host: throws and catches in every way that C++ on Linux knows, with allocations of device memory before the
// throw, in destructors that run while the stack unwinds, and in the handler. Prints a line for each: what arrived,
// and how many frames were left on the way. The same is to be printed whoever listens.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

constexpr int kDepth = 30;
constexpr size_t kAlternateStack = size_t{256} << 10;

int g_left = 0;  // frames that were unwound through

[[gnu::noinline]] void Allocate() {
  void* memory = nullptr;
  if (cudaMalloc(&memory, 1 << 20) != cudaSuccess) std::exit(70);
}

struct Frame {
  ~Frame() {
    ++g_left;
    if (g_left % 10 == 0) Allocate();  // while an exception is on its way
  }
};

[[gnu::noinline]] void Throw(int depth) {
  const Frame frame;
  if (depth > 0) {
    Throw(depth - 1);
    asm volatile("");  // no tail call: every depth is a frame to unwind
    return;
  }
  Allocate();
  throw std::runtime_error("thrown");
}

template <typename Function>
std::string Caught(Function function) {
  try {
    function();
  } catch (const std::exception& error) {
    Allocate();
    return error.what();
  } catch (int number) {
    Allocate();
    return std::to_string(number);
  }
  return "nothing";
}

template <typename Function>
void Case(const char* name, Function function) {
  g_left = 0;
  const std::string what = function();
  std::printf("%s: %s, %d frames left\n", name, what.c_str(), g_left);
  std::fflush(stdout);
}

// Out of a function that C code calls.
int Compare(const void*, const void*) {
  Throw(kDepth);
  return 0;
}

std::string ThroughC() {
  return Caught([] {
    int numbers[] = {2, 1, 3};
    std::qsort(numbers, 3, sizeof(int), &Compare);
  });
}

std::string Nested() {
  return Caught([] {
    try {
      Throw(kDepth);
    } catch (...) {
      std::throw_with_nested(7);
    }
  });
}

std::string Again() {
  return Caught([] {
    try {
      Throw(kDepth);
    } catch (const std::logic_error&) {
      std::exit(71);
    } catch (...) {
      Allocate();
      throw;
    }
  });
}

std::string ToAnotherThread() {
  std::future<void> made = std::async(std::launch::async, [] { Throw(kDepth); });
  return Caught([&] { made.get(); });
}

std::string NoMemory() {
  return Caught([] {
    void* memory = nullptr;
    if (cudaMalloc(&memory, size_t{1} << 60) != cudaSuccess) throw std::bad_alloc();
  });
}

// --- in signal handlers, and out of them

std::string g_in_handler;

void OnSignal(int) {
  g_in_handler = Caught([] { Throw(kDepth); });
}

void OnSignalThrow(int) { Throw(kDepth); }

void Handle(int number, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(number, &action, nullptr);
}

std::string InHandler() {
  Handle(SIGUSR1, &OnSignal, 0);
  raise(SIGUSR1);
  return g_in_handler;
}

std::string OutOfHandler() {
  Handle(SIGUSR2, &OnSignalThrow, SA_NODEFER);
  // By a pointer that does not promise, as the header does, that nothing is thrown.
  int (*volatile signal_oneself)(int) = raise;
  return Caught([&] { signal_oneself(SIGUSR2); });
}

std::string InHandlerOnItsOwnStack() {
  std::string result;
  std::thread thread([&] {
    static char memory[kAlternateStack];
    const stack_t stack{memory, 0, sizeof memory};
    sigaltstack(&stack, nullptr);
    Handle(SIGUSR1, &OnSignal, SA_ONSTACK);
    pthread_kill(pthread_self(), SIGUSR1);
    result = g_in_handler;
    const stack_t none{nullptr, SS_DISABLE, 0};
    sigaltstack(&none, nullptr);
  });
  thread.join();
  return result;
}

// --- forced unwinding: the thread's own end, and that which another one asks for

void* EndByExit(void*) {
  const Frame frame;
  Allocate();
  pthread_exit(reinterpret_cast<void*>(5));
}

void* WaitToBeCancelled(void* ready) {
  const Frame frame;
  Allocate();
  static_cast<std::promise<void>*>(ready)->set_value();
  for (;;) {
    Allocate();
    pthread_testcancel();
  }
}

std::string Exit() {
  pthread_t thread{};
  void* result = nullptr;
  pthread_create(&thread, nullptr, &EndByExit, nullptr);
  pthread_join(thread, &result);
  return std::to_string(reinterpret_cast<intptr_t>(result));
}

std::string Cancel() {
  pthread_t thread{};
  std::promise<void> ready;
  void* result = nullptr;
  pthread_create(&thread, nullptr, &WaitToBeCancelled, &ready);
  ready.get_future().wait();
  pthread_cancel(thread);
  pthread_join(thread, &result);
  return result == PTHREAD_CANCELED ? "cancelled" : "not cancelled";
}

// --- with libraries that come

std::string FromALibrary(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  const auto call = reinterpret_cast<int (*)(int)>(dlsym(library, "ThrowAndCatch"));
  const auto out = reinterpret_cast<void (*)(int)>(dlsym(library, "ThrowOut"));
  std::string result = call(kDepth) == 1 ? "caught within, " : "lost within, ";
  result += Caught([&] { out(kDepth); });
  dlclose(library);
  return result;
}

// Which library throws: that of the program, whatever the recorder unwinds with.
std::string Thrower() {
  Dl_info info{};
  void* function = dlsym(RTLD_DEFAULT, "_Unwind_RaiseException");
  if (function == nullptr || dladdr(function, &info) == 0) return "unknown";
  const std::string path = info.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (int round = 0; round < 3; ++round) {  // the second time every cache is warm
    Case("plain", [] { return Caught([] { Throw(kDepth); }); });
    Case("through C", &ThroughC);
    Case("nested", &Nested);
    Case("again", &Again);
    Case("to another thread", &ToAnotherThread);
    Case("no memory", &NoMemory);
    Case("in a signal handler", &InHandler);
    Case("out of a signal handler", &OutOfHandler);
    Case("in a handler on its own stack", &InHandlerOnItsOwnStack);
    Case("pthread_exit", &Exit);
    Case("pthread_cancel", &Cancel);
    Case("from a library", [&] { return FromALibrary(argv[1]); });
    Case("thrown by", &Thrower);
  }
  return 0;
}

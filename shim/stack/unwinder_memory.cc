// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/unwinder_memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "shim/base/descriptors.h"
#include "shim/base/thread.h"
#include "shim/stack/memory_read.h"

namespace gpumemshim::stack {
namespace {

constexpr uintptr_t kPageBytes = 4096;

// libunwind's public interface, declared here since we do not link with it.
using AccessMemory = int (*)(void* address_space, uintptr_t address, uintptr_t* value, int write, void* argument);
struct Accessors {
  void* find_proc_info;
  void* put_unwind_info;
  void* get_dyn_info_list_addr;
  AccessMemory access_memory;
};
using GetAccessors = Accessors* (*)(void* address_space);

#if defined(__x86_64__)
constexpr const char* kAddressSpace = "_ULx86_64_local_addr_space";
constexpr const char* kGetAccessors = "_Ux86_64_get_accessors";
#elif defined(__aarch64__)
constexpr const char* kAddressSpace = "_ULaarch64_local_addr_space";
constexpr const char* kGetAccessors = "_Uaarch64_get_accessors";
#endif

constexpr int kOk = 0;
constexpr int kUnspecified = -1;  // -UNW_EUNSPEC

std::atomic<AccessMemory> g_before;

int ReadOwnMemory(void* address_space, uintptr_t address, uintptr_t* value, int write, void* argument) {
  if (write != 0) [[unlikely]]  // the program's own use of the same library
    return g_before.load(std::memory_order_relaxed)(address_space, address, value, write, argument);
  const uintptr_t page = address & ~(kPageBytes - 1);
  const auto* from = reinterpret_cast<const void*>(address);
  ThreadState* const state = t_state;
  const uintptr_t known = state == nullptr ? kNoPages : state->readable_page;
  if (page == known && page != 0 && address - page <= kPageBytes - sizeof *value) {
    *value = Load<uintptr_t>(from, 0);
    return kOk;
  }
  if (!TryRead(from, 0, value)) return kUnspecified;
  if (known != kNoPages) state->readable_page = page;
  return kOk;
}

struct SetUp {
  GetAccessors get;
  void* address_space;
  Accessors* accessors;
};

// The first call sets the library up, and opens the pipe.
void* SetUpApart(void* argument) {
  auto* set_up = static_cast<SetUp*>(argument);
  descriptors::LeaveTable(STDERR_FILENO + 1);  // where that is not to be had the pipe stays open, and unused
  set_up->accessors = set_up->get(set_up->address_space);
  return nullptr;
}

}  // namespace

bool TakeOverMemory(void* libunwind) {
  auto** address_space = static_cast<void**>(dlsym(libunwind, kAddressSpace));
  const auto get = reinterpret_cast<GetAccessors>(dlsym(libunwind, kGetAccessors));
  if (address_space == nullptr || get == nullptr) return false;
  SetUp set_up = {get, *address_space, nullptr};
  pthread_t thread;
  if (!StartThread(&thread, &SetUpApart, &set_up)) return false;
  pthread_join(thread, nullptr);
  if (set_up.accessors == nullptr || set_up.accessors->access_memory == nullptr) return false;
  if (set_up.accessors->access_memory == &ReadOwnMemory) return true;
  g_before.store(set_up.accessors->access_memory, std::memory_order_relaxed);
  set_up.accessors->access_memory = &ReadOwnMemory;
  return true;
}

}  // namespace gpumemshim::stack

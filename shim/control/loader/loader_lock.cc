// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/loader/loader_lock.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "shim/base/calls/real.h"
#include "shim/base/loader.h"

namespace {

// One at a time. By the thread, since whoever else looks the name up gets a function that does nothing.
void (*g_run)(void* data);
void* g_data;
std::atomic<pid_t> g_thread;

void Nothing() {}

pid_t ThisThread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

}  // namespace

extern "C" {

__attribute__((visibility("hidden"), used)) void (*GpumemUnderLoaderLock())() {
  if (g_thread.load(std::memory_order_relaxed) == ThisThread()) {
    g_thread.store(0, std::memory_order_relaxed);
    g_run(g_data);
  }
  return &Nothing;
}

__attribute__((visibility("default"), ifunc("GpumemUnderLoaderLock"))) void gpumemshim_loader_lock_v1();
}

namespace gpumemshim::control {

void UnderLoaderLock(void (*run)(void* data), void* data) {
  const loader::Use use;  // a child forked meanwhile would have the lock for ever
  Dl_info info;
  link_map* own = nullptr;
  const calls::DlsymFunction find = calls::RealDlsym();
  g_run = run;
  g_data = data;
  g_thread.store(ThisThread(), std::memory_order_relaxed);
  if (dladdr1 != nullptr) {
    dladdr1(reinterpret_cast<const void*>(&Nothing), &info, reinterpret_cast<void**>(&own), RTLD_DL_LINKMAP);
  }
  if (find != nullptr && own != nullptr) find(own, "gpumemshim_loader_lock_v1");
  if (g_thread.exchange(0, std::memory_order_relaxed) != 0) run(data);
}

}  // namespace gpumemshim::control

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/loader_lock.h"

#include <dlfcn.h>
#include <link.h>

#include "shim/base/loader.h"
#include "shim/calls/real.h"

namespace {

struct Task {
  void (*run)(void* data);
  void* data;
};

constinit thread_local Task t_task = {};

void Nothing() {}

}  // namespace

extern "C" {

// The task is the calling thread's: whoever else looks the name up gets a function that does nothing.
__attribute__((visibility("hidden"), used)) void (*GpumemUnderLoaderLock())() {
  const Task task = t_task;
  t_task = {};
  if (task.run != nullptr) task.run(task.data);
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
  t_task = {run, data};
  dladdr1(reinterpret_cast<const void*>(&Nothing), &info, reinterpret_cast<void**>(&own), RTLD_DL_LINKMAP);
  if (find != nullptr && own != nullptr) find(own, "gpumemshim_loader_lock_v1");
  if (t_task.run == nullptr) return;
  t_task = {};
  run(data);
}

}  // namespace gpumemshim::control

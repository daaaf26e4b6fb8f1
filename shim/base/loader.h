// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The dynamic loader, used so that no fork() of the host falls into it. dl_iterate_phdr, dlopen and the unwinders take
// the loader's list lock, and glibc's fork gives its child that lock as it stood, held by a thread that the child does
// not have: the child's next dlopen never returns (seen with glibc 2.36). Without us no such thread would be there. So
// whoever of us uses the loader says so, and a fork waits for them (control/session.cc registers the handlers).
//
// Thread-safety: any thread, also in a signal handler. Bounded: a fork waits for users at most kPatienceMs, users wait
// as long for forks; uses may nest, and whoever forks may use the loader in other fork handlers.
//
//   loader::Iterate(&Visit, &query);                  // dl_iterate_phdr
//   const loader::Use use;                            // what else takes the lock: dlopen, an unwinder
//   void* library = dlopen("libunwind.so.8", RTLD_NOW);

#ifndef GPUMEM_SHIM_BASE_LOADER_H_
#define GPUMEM_SHIM_BASE_LOADER_H_

#include <dlfcn.h>
#include <link.h>

#include <cstdint>

// Absent from other C libraries; a preload must load there too: ask for nullptr before the call.
extern "C" __attribute__((weak)) int dladdr1(const void*, Dl_info*, void**, int) noexcept;

namespace gpumemshim::loader {

inline constexpr uint32_t kPatienceMs = 500;

// While it lives the calling thread uses the loader.
class Use {
 public:
  Use();
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
};

// dl_iterate_phdr.
int Iterate(int (*visit)(dl_phdr_info* object, size_t size, void* data), void* data);

// True while a fork waits for users: one that takes long (milliseconds) ends early and begins again.
bool ForkWaits();

// What pthread_atfork is to call.
void BeforeFork();
void AfterForkInParent();
void ForgetInChild();

}  // namespace gpumemshim::loader

#endif  // GPUMEM_SHIM_BASE_LOADER_H_

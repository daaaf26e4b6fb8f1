// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Runs something while the loader neither loads, relocates nor unloads anything. dl_iterate_phdr alone does not give
// that: its lock protects the list of objects, which has a new object before its slots are relocated. A slot that we
// wrote then would be relocated on top (lazy binding adds the base to what it finds), and a page that we made
// read-only again would fault in the loader.
//
// The lock is glibc's own and nobody may take it; but dlsym holds it while the resolver of an indirect function (IFUNC)
// runs (dlsym_implementation in glibc's dlfcn/dlsym.c). So we look up one of ours, whose resolver runs `run`.
//
// Thread-safety: one thread at a time, which holds no lock; waits for a dlopen that another thread is in, also for its
// initializers. Failure: where the lookup does not come by, `run` runs without the lock.
//
//   UnderLoaderLock(&Scan, &state);

#ifndef GPUMEM_SHIM_CONTROL_LOADER_LOADER_LOCK_H_
#define GPUMEM_SHIM_CONTROL_LOADER_LOADER_LOCK_H_

namespace gpumemshim::control {

void UnderLoaderLock(void (*run)(void* data), void* data);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_LOADER_LOADER_LOCK_H_

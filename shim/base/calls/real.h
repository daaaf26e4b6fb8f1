// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The functions behind ours: the loader's dlsym and dlvsym, and for each wrapped function the next definition in the
// process (RTLD_NEXT, so that another preload behind us keeps its place; else the loaded libcudart or libcuda, also
// where it was loaded with RTLD_LOCAL).
//
// Thread-safety: any thread. Lookups are idempotent, results are published by one store; no lock of ours. Failure:
// nullptr, and the caller answers as CUDA does for a missing function.
//
//   auto real = reinterpret_cast<decltype(&cuMemAlloc_v2)>(RealFunction(ApiId::kcuMemAlloc_v2));
//
// Several libcudart in one process: see caller_runtime.h. What dlsym finds in one that we do not forward to is answered
// with the library's own function, whose driver calls are recorded instead.

#ifndef GPUMEM_SHIM_BASE_CALLS_REAL_H_
#define GPUMEM_SHIM_BASE_CALLS_REAL_H_

#include <atomic>

#include "shim/base/api.h"

namespace gpumemshim::calls {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);

// nullptr only where the C library keeps them out of sight.
DlsymFunction RealDlsym();
DlvsymFunction RealDlvsym();

// What the next object behind us in the global scope calls `name`; nullptr where there is none. Leaves no dlerror().
void* NextInScope(const char* name);

extern std::atomic<void*> g_real_functions[kApiCount];

// True where the runtime's function behind ours is another preload's (a memory saver's, say). What it makes of the call
// is recorded as it reaches the driver, since what it does later to that memory does too.
extern std::atomic<bool> g_foreign_runtime[kApiCount];

void* ResolveRealFunction(ApiId id);

// A function of the first loaded object whose file name begins with `library`. The object is held for good: we keep the
// address, and a library loaded again elsewhere would leave us with a stale one.
void* FindAndPin(const char* library, const char* name);

inline void* RealFunction(ApiId id) {
  void* known = g_real_functions[static_cast<uint16_t>(id)].load(std::memory_order_acquire);
  return known != nullptr ? known : ResolveRealFunction(id);
}

// What a search behind the caller (RTLD_NEXT) is to be answered with: false where it finds what it would find without
// us. True where it would end at our wrapper of a function that nobody in the process has: then FindBehindUs fails as
// it must.
bool NextIsOnlyOurs(ApiId id, const void* caller);
void* FindBehindUs(void* handle, const char* name);

// What a lookup of a wrapped name in `handle` that really found `found` is answered with: our wrapper where `found` is
// the function that we forward to, nullptr where nothing but ourselves has the name, else `found`.
void* AnswerLookup(ApiId id, void* handle, void* found);

// Our wrapper for a driver function's address, or nullptr where it is none that we wrap. For cuGetProcAddress.
void* WrapperOfDriverFunction(const void* function);

// The same where an interposer behind us answers with `function` for what the driver itself calls `driver_function`:
// our wrapper forwards to the interposer's from now on.
void* WrapperOfSubstitute(void* function, const void* driver_function);

// A driver function that we call but do not wrap; looked up anew at each call, so keep the result.
void* DriverFunction(const char* name);

}  // namespace gpumemshim::calls

#endif  // GPUMEM_SHIM_BASE_CALLS_REAL_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the stubs of dlsym_<arch>.S ask: where a lookup goes. Only names in our table are looked at, and they are
// answered with our wrapper only where the real lookup finds the driver's or the runtime's own function. Nothing is set
// up here: programs look up CUDA's names long before they use it, some under the loader's lock.
//
// Thread-safety: any thread. Failure: without a real dlsym every lookup fails, as dlsym does.

#include <dlfcn.h>

#include "shim/hooks/own_symbols.h"
#include "shim/hooks/real.h"

namespace gpumemshim::hooks {
namespace {

void* FailLookup(void*, const char*) { return nullptr; }
void* FailVersionedLookup(void*, const char*, const char*) { return nullptr; }

void* Lookup(void* handle, const char* name) { return AnswerLookup(FindOwnSymbol(name), RealDlsym()(handle, name)); }

void* LookupVersioned(void* handle, const char* name, const char* version) {
  return AnswerLookup(FindOwnSymbol(name), RealDlvsym()(handle, name, version));
}

// RTLD_NEXT means "behind the caller": if that is us the loader says so itself, and if the caller stands behind us it
// must not be led back.
bool Passes(void* handle, const char* name) { return handle == RTLD_NEXT || FindOwnSymbol(name) == ApiId::kNone; }

}  // namespace

extern "C" __attribute__((visibility("hidden"))) void* GpumemDlsymFilter(void* handle, const char* name) {
  const DlsymFunction real = RealDlsym();
  if (real == nullptr) return reinterpret_cast<void*>(&FailLookup);
  return Passes(handle, name) ? reinterpret_cast<void*>(real) : reinterpret_cast<void*>(&Lookup);
}

extern "C" __attribute__((visibility("hidden"))) void* GpumemDlvsymFilter(void* handle, const char* name) {
  const DlvsymFunction real = RealDlvsym();
  if (real == nullptr) return reinterpret_cast<void*>(&FailVersionedLookup);
  return Passes(handle, name) ? reinterpret_cast<void*>(real) : reinterpret_cast<void*>(&LookupVersioned);
}

}  // namespace gpumemshim::hooks

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the stubs of dlsym_<arch>.S ask: where a lookup goes. Only names in our table are looked at, and they are
// answered with our wrapper only where the real lookup finds the driver's or the runtime's own function. Nothing is set
// up here: programs look up CUDA's names long before they use it, some under the loader's lock. Nor is anything called
// by name here: the runtimes of sanitizers look up the C library's functions while their own are not yet fit to be
// called.
//
// Thread-safety: any thread. Failure: without a real dlsym every lookup fails, as dlsym does.

#include <dlfcn.h>

#include "shim/base/calls/own_symbols.h"
#include "shim/base/calls/real.h"
#include "shim/base/plain_text.h"
#include "shim/base/symbol_lookup.h"

// Ours, of dlsym_<arch>.S.
extern "C" void* dlsym(void* handle, const char* name) noexcept;
extern "C" void* dlvsym(void* handle, const char* name, const char* version) noexcept;

namespace gpumemshim::hooks {
namespace {

void* FailLookup(void*, const char*) { return nullptr; }
void* FailVersionedLookup(void*, const char*, const char*) { return nullptr; }

void* Lookup(void* handle, const char* name) {
  return calls::AnswerLookup(calls::FindOwnSymbol(name), handle, calls::RealDlsym()(handle, name));
}

void* LookupVersioned(void* handle, const char* name, const char* version) {
  return calls::AnswerLookup(calls::FindOwnSymbol(name), handle, calls::RealDlvsym()(handle, name, version));
}

bool IsOwnLookup(const char* name) { return plain::Equal(name, "dlsym") || plain::Equal(name, "dlvsym"); }

// Another interposer in front of us asks for the next one by a version, as it must to find the C library's; our
// definitions have none, so the loader would pass us over.
void* NextLookup(void*, const char* name, const char*) {
  return name[2] == 's' ? reinterpret_cast<void*>(&dlsym) : reinterpret_cast<void*>(&dlvsym);
}

void* FindVersionedBehindUs(void* handle, const char* name, const char*) { return calls::FindBehindUs(handle, name); }

enum class Way { kPass, kAnswer, kBehindUs };

// RTLD_NEXT means "behind the caller": if that is us the loader says so itself, and if the caller stands behind us it
// must not be led back.
Way WayOf(void* handle, const char* name, const void* caller) {
  const ApiId id = calls::FindOwnSymbol(name);
  if (id == ApiId::kNone) return Way::kPass;
  if (handle != RTLD_NEXT) return Way::kAnswer;
  return calls::NextIsOnlyOurs(id, caller) ? Way::kBehindUs : Way::kPass;
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) void* GpumemDlsymFilter(void* handle, const char* name, const char*,
                                                                         const void* caller) {
  const calls::DlsymFunction real = calls::RealDlsym();
  if (real == nullptr) return reinterpret_cast<void*>(&FailLookup);
  const Way way = WayOf(handle, name, caller);
  if (way == Way::kBehindUs) return reinterpret_cast<void*>(&calls::FindBehindUs);
  return way == Way::kPass ? reinterpret_cast<void*>(real) : reinterpret_cast<void*>(&Lookup);
}

extern "C" __attribute__((visibility("hidden"))) void* GpumemDlvsymFilter(void* handle, const char* name, const char*,
                                                                          const void* caller) {
  const calls::DlvsymFunction real = calls::RealDlvsym();
  if (real == nullptr) return reinterpret_cast<void*>(&FailVersionedLookup);
  if (handle == RTLD_NEXT && IsOwnLookup(name) && IsLoadedBeforeUs(caller)) return reinterpret_cast<void*>(&NextLookup);
  const Way way = WayOf(handle, name, caller);
  if (way == Way::kBehindUs) return reinterpret_cast<void*>(&FindVersionedBehindUs);
  return way == Way::kPass ? reinterpret_cast<void*>(real) : reinterpret_cast<void*>(&LookupVersioned);
}

}  // namespace gpumemshim::hooks

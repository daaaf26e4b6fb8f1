// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Compiled without sibling-call optimisation: dlsym(RTLD_NEXT) looks at its return address, which must lie here.

#include "shim/base/calls/real.h"

#include <dlfcn.h>

#include "shim/base/c_library.h"
#include "shim/base/calls/own_symbols.h"
#include "shim/base/loader.h"
#include "shim/base/memory_checkers.h"
#include "shim/base/symbol_lookup.h"

namespace gpumemshim::calls {

std::atomic<void*> g_real_functions[kApiCount];

namespace {

constexpr const char* kLibcuda = "libcuda.so";
constexpr const char* kLibcudart = "libcudart";  // also libcudart-<hash>.so of older wheels

std::atomic<DlsymFunction> g_real_dlsym;
std::atomic<DlvsymFunction> g_real_dlvsym;

// glibc's, before 2.34 in a library of its own; musl's, where it is the loader or lies beside it.
void* FindInLibc(const char* name) {
  if (void* found = c_library::Find(name)) return found;
  for (const char* library : {"libc.so.6", "libdl.so.2", "ld-musl-", "libc.musl-", "libc.so"}) {
    if (void* found = FindInLoaded(library, name)) return found;
  }
  return nullptr;
}

DlsymFunction LibcDlsym() {
  static std::atomic<void*> known;
  void* found = known.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = FindInLibc("dlsym");
    known.store(found, std::memory_order_release);
  }
  return reinterpret_cast<DlsymFunction>(found);
}

// Asks for the next dlsym behind us, of any version or none, so that another interposer keeps its place.
template <typename Function>
Function FindLoaderFunction(const char* name) {
  const DlsymFunction libc_dlsym = LibcDlsym();
  void* found = libc_dlsym == nullptr ? nullptr : libc_dlsym(RTLD_NEXT, name);
  if (found == nullptr || IsOwnAddress(found)) found = FindInLibc(name);
  return reinterpret_cast<Function>(found);
}

const char* LibraryOf(ApiId id) { return ApiLayer(id) == Layer::kDriver ? kLibcuda : kLibcudart; }

void* FindInLibrary(ApiId id) { return FindAndPin(LibraryOf(id), ApiName(static_cast<uint16_t>(id))); }

// The first finder wins, so that every call of one function goes to one library.
void* Publish(ApiId id, void* found) {
  void* expected = nullptr;
  auto& slot = g_real_functions[static_cast<uint16_t>(id)];
  return slot.compare_exchange_strong(expected, found, std::memory_order_acq_rel) ? found : expected;
}

// Everybody goes through `function` from now on, which another interposer put in the place of CUDA's.
void* StandBefore(ApiId id, void* function) {
  g_real_functions[static_cast<uint16_t>(id)].store(function, std::memory_order_release);
  return OwnAddress(id);
}

// True where the look-up that found `found` would have found CUDA's own function but for an interposer behind us.
bool IsInterposed(ApiId id, void* handle) {
  const DlsymFunction libc_dlsym = LibcDlsym();
  if (libc_dlsym == nullptr || libc_dlsym == RealDlsym()) return false;
  const void* plain = libc_dlsym(handle, ApiName(static_cast<uint16_t>(id)));
  return plain != nullptr && LiesIn(plain, LibraryOf(id));
}

ApiId DriverFunctionAt(const void* function) {
  for (uint16_t i = 1; function != nullptr && i < kApiCount; ++i) {
    const auto id = static_cast<ApiId>(i);
    if (ApiLayer(id) == Layer::kDriver && g_real_functions[i].load(std::memory_order_acquire) == function) return id;
  }
  return ApiId::kNone;
}

}  // namespace

std::atomic<bool> g_foreign_runtime[kApiCount];

DlsymFunction RealDlsym() {
  DlsymFunction known = g_real_dlsym.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = FindLoaderFunction<DlsymFunction>("dlsym");
    g_real_dlsym.store(known, std::memory_order_release);
  }
  return known;
}

DlvsymFunction RealDlvsym() {
  DlvsymFunction known = g_real_dlvsym.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = FindLoaderFunction<DlvsymFunction>("dlvsym");
    g_real_dlvsym.store(known, std::memory_order_release);
  }
  return known;
}

void* NextInScope(const char* name) {
  const DlsymFunction real_dlsym = RealDlsym();
  if (real_dlsym == nullptr) return nullptr;
  void* found = real_dlsym(RTLD_NEXT, name);
  if (found == nullptr) dlerror();
  return IsOwnAddress(found) ? nullptr : found;
}

void* FindAndPin(const char* library, const char* name) {
  const loader::Use use;
  char path[4096];
  void* found = FindInLoaded(library, name, path, sizeof path);
  if (found != nullptr && path[0] != '\0') dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  return found;
}

void* ResolveRealFunction(ApiId id) {
  BypassMemoryCheckers();
  void* found = NextInScope(ApiName(static_cast<uint16_t>(id)));
  if (found != nullptr && ApiLayer(id) == Layer::kRuntime && !LiesIn(found, kLibcudart)) {
    g_foreign_runtime[static_cast<uint16_t>(id)].store(true, std::memory_order_relaxed);
  }
  if (found == nullptr) found = FindInLibrary(id);
  return found == nullptr ? nullptr : Publish(id, found);
}

bool NextIsOnlyOurs(ApiId id, const void* caller) {
  if (!IsLoadedBeforeUs(caller) || RealFunction(id) != nullptr) return false;
  const DlsymFunction libc_dlsym = LibcDlsym();
  // Who stands between the caller and us would come first in the global scope too.
  return libc_dlsym != nullptr && libc_dlsym(RTLD_DEFAULT, ApiName(static_cast<uint16_t>(id))) == OwnAddress(id);
}

void* FindBehindUs(void*, const char* name) { return RealDlsym()(RTLD_NEXT, name); }

void* AnswerLookup(ApiId id, void* handle, void* found) {
  if (found == nullptr) return nullptr;
  // Found ourselves, as a search from the program's start does. The answer without us: nothing, unless CUDA is loaded.
  if (IsOwnAddress(found)) {
    if (RealFunction(id) != nullptr) return found;
    return RealDlsym()(RTLD_NEXT, ApiName(static_cast<uint16_t>(id)));  // fails again, now for the caller's dlerror()
  }
  if (found == g_real_functions[static_cast<uint16_t>(id)].load(std::memory_order_acquire)) return OwnAddress(id);
  if (!LiesIn(found, LibraryOf(id))) {
    // Somebody's own function of that name, or one that stands in for CUDA's.
    return IsInterposed(id, handle) ? StandBefore(id, found) : found;
  }
  // A preload that exports the name comes first; who asked the library itself gets the library's function.
  RealFunction(id);
  return Publish(id, found) == found ? OwnAddress(id) : found;
}

void* WrapperOfDriverFunction(const void* function) {
  const ApiId id = DriverFunctionAt(function);
  return id == ApiId::kNone ? nullptr : OwnAddress(id);
}

void* WrapperOfSubstitute(void* function, const void* driver_function) {
  if (IsOwnAddress(function) || LiesIn(function, kLibcuda)) return nullptr;
  const ApiId id = DriverFunctionAt(driver_function);
  return id == ApiId::kNone ? nullptr : StandBefore(id, function);
}

void* DriverFunction(const char* name) {
  if (void* found = FindInLoaded(kLibcuda, name)) return found;
  return NextInScope(name);
}

}  // namespace gpumemshim::calls

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Compiled without sibling-call optimisation: dlsym(RTLD_NEXT) looks at its return address, which must lie here.

#include "shim/hooks/real.h"

#include <dlfcn.h>

#include "shim/hooks/own_symbols.h"
#include "shim/hooks/symbol_lookup.h"

namespace gpumemshim::hooks {

std::atomic<void*> g_real_functions[kApiCount];

namespace {

constexpr const char* kLibcuda = "libcuda.so";
constexpr const char* kLibcudart = "libcudart";  // also libcudart-<hash>.so of older wheels

std::atomic<DlsymFunction> g_real_dlsym;
std::atomic<DlvsymFunction> g_real_dlvsym;

void* FindInLibc(const char* name) {
  if (void* found = FindInLoaded("libc.so.6", name)) return found;
  return FindInLoaded("libdl.so.2", name);  // before glibc 2.34
}

// Asks for the next dlsym behind us, so that another interposer keeps its place; libc's own where the versions differ.
template <typename Function>
Function FindLoaderFunction(const char* name) {
  const auto libc_dlvsym = reinterpret_cast<DlvsymFunction>(FindInLibc("dlvsym"));
  if (libc_dlvsym != nullptr) {
    for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
      void* found = libc_dlvsym(RTLD_NEXT, name, version);
      if (found != nullptr && !IsOwnAddress(found)) return reinterpret_cast<Function>(found);
    }
  }
  return reinterpret_cast<Function>(FindInLibc(name));
}

const char* LibraryOf(ApiId id) { return ApiLayer(id) == Layer::kDriver ? kLibcuda : kLibcudart; }

void* FindInLibrary(ApiId id) {
  char path[4096];
  void* found = FindInLoaded(LibraryOf(id), ApiName(static_cast<uint16_t>(id)), path, sizeof path);
  // Held for good: we keep its address, and a library loaded again elsewhere would leave us with a stale one.
  if (found != nullptr && path[0] != '\0') dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  return found;
}

// The first finder wins, so that every call of one function goes to one library.
void* Publish(ApiId id, void* found) {
  void* expected = nullptr;
  auto& slot = g_real_functions[static_cast<uint16_t>(id)];
  return slot.compare_exchange_strong(expected, found, std::memory_order_acq_rel) ? found : expected;
}

}  // namespace

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

void* ResolveRealFunction(ApiId id) {
  void* found = NextInScope(ApiName(static_cast<uint16_t>(id)));
  if (found == nullptr) found = FindInLibrary(id);
  return found == nullptr ? nullptr : Publish(id, found);
}

void* AnswerLookup(ApiId id, void* found) {
  if (found == nullptr) return nullptr;
  // Found ourselves, as a search from the program's start does. The answer without us: nothing, unless CUDA is loaded.
  if (IsOwnAddress(found)) {
    if (RealFunction(id) != nullptr) return found;
    return RealDlsym()(RTLD_NEXT, ApiName(static_cast<uint16_t>(id)));  // fails again, now for the caller's dlerror()
  }
  if (found == g_real_functions[static_cast<uint16_t>(id)].load(std::memory_order_acquire)) return OwnAddress(id);
  if (!LiesIn(found, LibraryOf(id))) return found;  // somebody's own function of that name
  return Publish(id, found) == found ? OwnAddress(id) : found;
}

void* WrapperOfDriverFunction(const void* function) {
  if (function == nullptr) return nullptr;
  for (uint16_t i = 1; i < kApiCount; ++i) {
    const auto id = static_cast<ApiId>(i);
    if (ApiLayer(id) == Layer::kDriver && g_real_functions[i].load(std::memory_order_acquire) == function) {
      return OwnAddress(id);
    }
  }
  return nullptr;
}

void* DriverFunction(const char* name) {
  if (void* found = FindInLoaded(kLibcuda, name)) return found;
  return NextInScope(name);
}

}  // namespace gpumemshim::hooks

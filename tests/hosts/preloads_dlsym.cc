// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Another interposer of dlsym, as they are found in the field. Compiled twice:
//
//   preload_forwards    passes every look-up on by an ordinary call, so that the loader takes it for the caller
//   preload_substitutes (SUBSTITUTES) answers cuGetProcAddress and cuMemAlloc with functions of its own that it exports
//   to
//                       nobody, as GPU sharing software does, and says at the end how many allocations it let through

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

namespace {

using Lookup = void* (*)(void*, const char*);

Lookup RealDlsym() {
  static Lookup real;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5"}) {
    if (real == nullptr) real = reinterpret_cast<Lookup>(dlvsym(RTLD_NEXT, "dlsym", version));
  }
  return real;
}

#ifdef SUBSTITUTES

using Resolve = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
using Allocate = CUresult (*)(CUdeviceptr*, std::size_t);

Resolve g_resolve;
Allocate g_allocate;
int g_allocations;

CUresult CountAllocation(CUdeviceptr* out, std::size_t bytes) {
  ++g_allocations;
  return g_allocate(out, bytes);
}

CUresult ResolveOrCount(const char* name, void** out, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult* status) {
  const CUresult result = g_resolve(name, out, version, flags, status);
  if (result != CUDA_SUCCESS || out == nullptr || *out == nullptr) return result;
  if (std::strcmp(name, "cuMemAlloc") == 0) {
    g_allocate = reinterpret_cast<Allocate>(*out);
    *out = reinterpret_cast<void*>(&CountAllocation);
  } else if (std::strcmp(name, "cuGetProcAddress") == 0 && version >= 12000) {
    *out = reinterpret_cast<void*>(&ResolveOrCount);
  }
  return result;
}

void* Substitute(const char* name, void* found) {
  if (found == nullptr) return nullptr;
  if (std::strcmp(name, "cuGetProcAddress_v2") == 0) {
    g_resolve = reinterpret_cast<Resolve>(found);
    return reinterpret_cast<void*>(&ResolveOrCount);
  }
  if (std::strcmp(name, "cuMemAlloc_v2") == 0) {
    g_allocate = reinterpret_cast<Allocate>(found);
    return reinterpret_cast<void*>(&CountAllocation);
  }
  return found;
}

__attribute__((destructor)) void Say() { std::printf("%d allocations let through\n", g_allocations); }

#else

void* Substitute(const char*, void* found) { return found; }

#endif

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
  return Substitute(name, RealDlsym()(handle, name));
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Modules and libraries: code and static variables. How much they take no call tells; measured where a context is
// current. What is loaded lazily comes with the first kernel and shows in the sampled rest alone.

#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/measure.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

template <typename Real, typename Module>
CUresult Load(ApiId api, Real real, const Module* out) {
  return RecordInside(api, EventKind::kModuleLoad, &FreeMemory::Now, real, [&](Event& event, const FreeMemory& before) {
    event.device = CurrentDevice();
    event.handle = out == nullptr ? 0 : AddressOf(*out);
    event.size = before.FellBy();
  });
}

template <typename Real>
CUresult Unload(ApiId api, Real real, uint64_t module) {
  return RecordInside(api, EventKind::kModuleUnload, &CurrentDevice, real, [&](Event& event, int16_t device) {
    event.device = device;
    event.handle = module;
  });
}

}  // namespace
}  // namespace gpumemshim::hooks

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuModuleLoad(CUmodule* out, const char* path) {
  const auto real = GPUMEM_REAL(cuModuleLoad);
  if (real == nullptr) return kMissingDriver;
  return Load(
      ApiId::kcuModuleLoad, [&] { return real(out, path); }, out);
}

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  const auto real = GPUMEM_REAL(cuModuleLoadData);
  if (real == nullptr) return kMissingDriver;
  return Load(
      ApiId::kcuModuleLoadData, [&] { return real(out, image); }, out);
}

CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int count, CUjit_option* options,
                            void** values) {
  const auto real = GPUMEM_REAL(cuModuleLoadDataEx);
  if (real == nullptr) return kMissingDriver;
  return Load(
      ApiId::kcuModuleLoadDataEx, [&] { return real(out, image, count, options, values); }, out);
}

CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  const auto real = GPUMEM_REAL(cuModuleLoadFatBinary);
  if (real == nullptr) return kMissingDriver;
  return Load(
      ApiId::kcuModuleLoadFatBinary, [&] { return real(out, image); }, out);
}

CUresult cuModuleUnload(CUmodule module) {
  const auto real = GPUMEM_REAL(cuModuleUnload);
  if (real == nullptr) return kMissingDriver;
  return Unload(
      ApiId::kcuModuleUnload, [&] { return real(module); }, AddressOf(module));
}

CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* jit_options, void** jit_values,
                           unsigned int jit_count, CUlibraryOption* options, void** values, unsigned int count) {
  const auto real = GPUMEM_REAL(cuLibraryLoadData);
  if (real == nullptr) return kMissingDriver;
  return Load(
      ApiId::kcuLibraryLoadData,
      [&] { return real(out, code, jit_options, jit_values, jit_count, options, values, count); }, out);
}

CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* jit_options, void** jit_values,
                               unsigned int jit_count, CUlibraryOption* options, void** values, unsigned int count) {
  const auto real = GPUMEM_REAL(cuLibraryLoadFromFile);
  if (real == nullptr) return kMissingDriver;
  return Load(
      ApiId::kcuLibraryLoadFromFile,
      [&] { return real(out, path, jit_options, jit_values, jit_count, options, values, count); }, out);
}

CUresult cuLibraryUnload(CUlibrary library) {
  const auto real = GPUMEM_REAL(cuLibraryUnload);
  if (real == nullptr) return kMissingDriver;
  return Unload(
      ApiId::kcuLibraryUnload, [&] { return real(library); }, AddressOf(library));
}

}  // extern "C"

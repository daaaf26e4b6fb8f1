// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Contexts. What one takes no call tells: it is measured where another context of the device is current, and is 0 where
// not; the sampler knows the rest. What is allocated in a context goes with it.
//
// The primary context is made by its first retain and ends with its last release, so its state is asked around both.

#include <optional>

#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/kernels.h"
#include "shim/hooks/measure.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

bool PrimaryIsActive(CUdevice device) {
  static std::atomic<void*> slot;
  const auto get = CachedDriverFunction<decltype(&::cuDevicePrimaryCtxGetState)>(slot, "cuDevicePrimaryCtxGetState");
  unsigned int flags = 0;
  int active = 0;
  return get != nullptr && get(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// What is free before a context is made: known where a context of this very device is current.
FreeMemory Look(CUdevice device) { return CurrentDevice() == device ? FreeMemory::Now() : FreeMemory(); }

template <typename Real, typename Context>
CUresult Create(ApiId api, Real real, const Context* out, CUdevice device, bool own) {
  return RecordInside(
      api, EventKind::kContextCreate, [&] { return Look(device); }, real,
      [&](Event& event, const FreeMemory& before) {
        event.device = static_cast<int16_t>(device);
        event.handle = out == nullptr ? 0 : AddressOf(*out);
        event.size = before.FellBy();
        if (own) AddOwnContext(event.handle);
      });
}

// Before the call: its memory's addresses may be given out again the moment it is gone.
template <typename Real>
CUresult Destroy(ApiId api, Real real, uint64_t context) {
  if (context == 0) return real();
  const CUresult result = RecordBefore(
      api, EventKind::kContextDestroy, Memory::kDevice, [&](Event& event) { event.handle = context; }, real);
  if (result == CUDA_SUCCESS) {
    RemoveOwnContext(context);
    ForgetLocalMemory();
  }
  return result;
}

// Only the last release ends it, which is known afterwards.
template <typename Real>
CUresult Release(ApiId api, Real real, CUdevice device) {
  return RecordInside(
      api, EventKind::kContextDestroy, [&] { return PrimaryIsActive(device); }, real,
      [&](Event& event, bool was_active) {
        event.device = static_cast<int16_t>(device);
        if (!was_active || PrimaryIsActive(device)) {
          event.kind = EventKind::kUnspecified;
        } else {
          ForgetLocalMemory();
        }
      });
}

template <typename Real>
CUresult Reset(ApiId api, Real real, CUdevice device) {
  const CUresult result = RecordBefore(
      api, EventKind::kDeviceReset, Memory::kDevice, [&](Event& event) { event.device = static_cast<int16_t>(device); },
      real);
  if (result == CUDA_SUCCESS) ForgetLocalMemory();
  return result;
}

}  // namespace

// Modules and libraries: code and static variables. How much they take no call tells; measured where a context is
// current. What is loaded lazily comes with the first kernel and shows in the sampled rest alone.

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

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  const auto real = GPUMEM_REAL(cuDevicePrimaryCtxRetain);
  if (real == nullptr) return kMissingDriver;
  return RecordInside(
      ApiId::kcuDevicePrimaryCtxRetain, EventKind::kContextCreate,
      // Most calls retain what is there already: nothing is measured then.
      [&]() -> std::optional<FreeMemory> {
        if (PrimaryIsActive(device)) return std::nullopt;
        return Look(device);
      },
      [&] { return real(out, device); },
      [&](Event& event, const std::optional<FreeMemory>& before) {
        event.device = static_cast<int16_t>(device);
        event.size = before ? before->FellBy() : 0;
        if (!before) event.kind = EventKind::kUnspecified;
      });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  const auto real = GPUMEM_REAL(cuDevicePrimaryCtxRelease);
  if (real == nullptr) return kMissingDriver;
  return Release(
      ApiId::kcuDevicePrimaryCtxRelease, [&] { return real(device); }, device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const auto real = GPUMEM_REAL(cuDevicePrimaryCtxRelease_v2);
  if (real == nullptr) return kMissingDriver;
  return Release(
      ApiId::kcuDevicePrimaryCtxRelease_v2, [&] { return real(device); }, device);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  const auto real = GPUMEM_REAL(cuDevicePrimaryCtxReset);
  if (real == nullptr) return kMissingDriver;
  return Reset(
      ApiId::kcuDevicePrimaryCtxReset, [&] { return real(device); }, device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  const auto real = GPUMEM_REAL(cuDevicePrimaryCtxReset_v2);
  if (real == nullptr) return kMissingDriver;
  return Reset(
      ApiId::kcuDevicePrimaryCtxReset_v2, [&] { return real(device); }, device);
}

CUresult cuCtxCreate(CUcontext* out, unsigned int flags, CUdevice device) {
  const auto real = GPUMEM_REAL(cuCtxCreate);
  if (real == nullptr) return kMissingDriver;
  return Create(
      ApiId::kcuCtxCreate, [&] { return real(out, flags, device); }, out, device, true);
}

CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  const auto real = GPUMEM_REAL(cuCtxCreate_v2);
  if (real == nullptr) return kMissingDriver;
  return Create(
      ApiId::kcuCtxCreate_v2, [&] { return real(out, flags, device); }, out, device, true);
}

CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* affinities, int count, unsigned int flags,
                        CUdevice device) {
  const auto real = GPUMEM_REAL(cuCtxCreate_v3);
  if (real == nullptr) return kMissingDriver;
  return Create(
      ApiId::kcuCtxCreate_v3, [&] { return real(out, affinities, count, flags, device); }, out, device, true);
}

CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* params, unsigned int flags, CUdevice device) {
  const auto real = GPUMEM_REAL(cuCtxCreate_v4);
  if (real == nullptr) return kMissingDriver;
  return Create(
      ApiId::kcuCtxCreate_v4, [&] { return real(out, params, flags, device); }, out, device, true);
}

CUresult cuCtxDestroy(CUcontext context) {
  const auto real = GPUMEM_REAL(cuCtxDestroy);
  if (real == nullptr) return kMissingDriver;
  return Destroy(
      ApiId::kcuCtxDestroy, [&] { return real(context); }, AddressOf(context));
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  const auto real = GPUMEM_REAL(cuCtxDestroy_v2);
  if (real == nullptr) return kMissingDriver;
  return Destroy(
      ApiId::kcuCtxDestroy_v2, [&] { return real(context); }, AddressOf(context));
}

CUresult cuCtxAttach(CUcontext* out, unsigned int flags) {
  const auto real = GPUMEM_REAL(cuCtxAttach);
  if (real == nullptr) return kMissingDriver;
  const CUresult result = real(out, flags);
  if (result == CUDA_SUCCESS && out != nullptr) AddUser(AddressOf(*out));
  return result;
}

CUresult cuCtxDetach(CUcontext context) {
  const auto real = GPUMEM_REAL(cuCtxDetach);
  if (real == nullptr) return kMissingDriver;
  if (!IsOwnContext(AddressOf(context))) return real(context);
  if (!TakeUser(AddressOf(context))) {
    return Destroy(
        ApiId::kcuCtxDetach, [&] { return real(context); }, AddressOf(context));
  }
  const CUresult result = real(context);
  if (result != CUDA_SUCCESS) AddUser(AddressOf(context));
  return result;
}

// What a limit takes may come with the next launch only; then the sampler knows.
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  const auto real = GPUMEM_REAL(cuCtxSetLimit);
  if (real == nullptr) return kMissingDriver;
  return RecordInside(
      ApiId::kcuCtxSetLimit, EventKind::kContextGrowth, &FreeMemory::Now, [&] { return real(limit, value); },
      [&](Event& event, const FreeMemory& before) {
        event.size = before.FellBy();
        event.device = CurrentDevice();
        event.handle = OwnContext();
        if (event.size == 0) event.kind = EventKind::kUnspecified;
      });
}

CUresult cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc resources, CUdevice device, unsigned int flags) {
  const auto real = GPUMEM_REAL(cuGreenCtxCreate);
  if (real == nullptr) return kMissingDriver;
  return Create(
      ApiId::kcuGreenCtxCreate, [&] { return real(out, resources, device, flags); }, out, device, false);
}

CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  const auto real = GPUMEM_REAL(cuGreenCtxDestroy);
  if (real == nullptr) return kMissingDriver;
  return Destroy(
      ApiId::kcuGreenCtxDestroy, [&] { return real(context); }, AddressOf(context));
}

}  // extern "C"

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

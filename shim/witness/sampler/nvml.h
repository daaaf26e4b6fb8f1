// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Nvml: the few questions that are asked of libnvidia-ml.so.1, found by dlopen. NVML needs no CUDA context, makes none,
// and never touches a stream, so it cannot disturb a capture; but a call may take milliseconds and holds NVML's lock,
// so only the sampling thread asks.
//
// Thread-safety: one thread. Ownership: the library stays loaded and initialised (NVML counts initialisations, so the
// program's own use is not touched). Failure: Open says why; a question returns false and leaves its answer alone.
//
//   Nvml nvml;
//   if (nvml.Open(error, sizeof error) && nvml.FindDevice(uuid, &handle) && nvml.ReadMemory(handle, &sample)) ...

#ifndef GPUMEM_SHIM_WITNESS_SAMPLER_NVML_H_
#define GPUMEM_SHIM_WITNESS_SAMPLER_NVML_H_

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <cstddef>
#include <cstdint>

#include "shim/witness/sampler/sample.h"

namespace gpumemshim::sampler {

class Nvml {
 public:
  static constexpr uint32_t kMaxProcesses = 256;

  // Loads the library, once; the loader's lock is taken here alone. For a thread of the host, at set-up: a child that
  // the host makes by clone while another thread holds that lock never gets out of exit(), where fork would give it
  // back.
  static void Load();

  bool Open(char* error, size_t error_size);

  // By identity, never by order: NVML numbers the machine's devices, CUDA the visible ones. A MIG instance has an
  // identity of its own.
  bool FindDevice(const uint8_t (&uuid)[16], nvmlDevice_t* device) const;

  // total, used, free and driver_reserved of `out`.
  bool ReadMemory(nvmlDevice_t device, DeviceSample* out) const;

  // The processes with a compute or graphics context, each once, without names; at most kMaxProcesses.
  bool ListProcesses(nvmlDevice_t device, ProcessUse (&out)[kMaxProcesses], uint32_t* count) const;

  // "NVML 13.580.65"
  const char* version() const { return version_; }

 private:
  // All versions of the list functions have this shape; the size of an element differs.
  using ListFunction = nvmlReturn_t (*)(nvmlDevice_t, unsigned*, void*);
  struct Lister {
    ListFunction list = nullptr;
    size_t stride = 0;
  };
  // What Load found, the same for all.
  struct Functions {
    bool loaded = false;
    decltype(&::nvmlInit_v2) init = nullptr;
    decltype(&::nvmlErrorString) error_string = nullptr;
    decltype(&::nvmlSystemGetNVMLVersion) version = nullptr;
    decltype(&::nvmlDeviceGetHandleByUUID) by_uuid = nullptr;
    decltype(&::nvmlDeviceGetMemoryInfo) memory = nullptr;
    decltype(&::nvmlDeviceGetMemoryInfo_v2) memory_v2 = nullptr;
    Lister compute, graphics;
  };
  static Functions g_functions;

  static Lister FindLister(void* library, const char* newest, const char* second, const char* first);
  static bool AddProcesses(const Lister& lister, nvmlDevice_t device, ProcessUse (&out)[kMaxProcesses],
                           uint32_t* count);
  void ReadVersion();

  char version_[64] = "";
};

}  // namespace gpumemshim::sampler

#endif  // GPUMEM_SHIM_WITNESS_SAMPLER_NVML_H_

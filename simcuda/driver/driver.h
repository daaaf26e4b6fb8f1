// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the files of the driver API share: the simulation behind it and the calling thread's context. The build defines
// __CUDA_API_VERSION_INTERNAL, so cuda.h declares every version of every function and no macro renames any.
//
// Thread-safety: all functions may be called from any thread.
// Ownership: cuInit makes the simulation; it is never destroyed, because libraries free memory in their destructors.
// Example, the beginning of nearly every allocating function:
//   Caller caller;
//   if (const CUresult result = CurrentCaller("cuMemAlloc_v2", &caller); result != CUDA_SUCCESS) return result;
#ifndef SIMCUDA_DRIVER_DRIVER_H_
#define SIMCUDA_DRIVER_DRIVER_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "simcuda/device/array_memory.h"
#include "simcuda/device/host_memory.h"
#include "simcuda/device/linear_memory.h"
#include "simcuda/device/machine.h"
#include "simcuda/device/module_memory.h"
#include "simcuda/device/virtual_memory.h"

namespace simcuda {

struct Simulation {
  explicit Simulation(const MachineConfig& config)
      : machine(config),
        linear(&machine),
        virtual_memory(&machine),
        host(&machine),
        arrays(&machine),
        modules(&machine) {}

  Machine machine;
  LinearMemory linear;
  VirtualMemory virtual_memory;
  HostMemory host;
  ArrayMemory arrays;
  ModuleMemory modules;
};

struct Context {
  int device = 0;
  bool primary = false;
  bool active = false;  // false: destroyed, or a primary context that nobody retains
  int retains = 0;
  int users = 1;  // of one that cuCtxCreate made (cuCtxAttach, cuCtxDetach)
  unsigned flags = 0;
  uint64_t id = 0;
  uint64_t bytes = 0;              // what it is charged
  const Context* owner = nullptr;  // of a green context: the primary one, to which all memory belongs
  std::map<CUlimit, size_t> limits{};
  uint64_t local_bytes = 0;  // the most that a thread of a launched kernel needs
};

// Null before cuInit.
Simulation* GetSimulation();

// CUDA_ERROR_NOT_INITIALIZED before cuInit, CUDA_ERROR_INVALID_DEVICE for an unknown device.
CUresult CheckDevice(CUdevice device);

// The thread's current context, or null.
Context* CurrentContext();

// A kernel is launched whose threads need so much local memory: the context takes it for all threads that the device
// can hold, once, and keeps it. CUDA_ERROR_OUT_OF_MEMORY where that does not fit.
CUresult NeedLocalMemory(uint64_t thread_bytes);

// A context by its handle: null where it is not one of ours or no longer active.
Context* FindContext(CUcontext handle);

// A green context, which keeps the primary one alive; and its end. CUDA_ERROR_INVALID_CONTEXT for what is none.
CUresult MakeGreenContext(CUdevice device, unsigned flags, Context** context);
CUresult DropGreenContext(Context* context);

// The thread's context and device for the log, or CUDA_ERROR_NOT_INITIALIZED / CUDA_ERROR_INVALID_CONTEXT.
CUresult CurrentCaller(const char* api, Caller* caller);

// The result that CurrentCaller() would give.
CUresult CheckContext();

// One unit of progress of the program; ends the process where SIMCUDA_MAX_LAUNCHES or SIMCUDA_MAX_SECONDS is exceeded.
void WatchProgress(uint64_t launches);

// The same for a read of device memory by the host.
// Whether so many were read that the limit is near.
bool WatchRead();

// Somebody waited: events that were recorded before are ready (SIMCUDA_EVENTS=late).
void NoteSynchronisation();
uint64_t LaunchCount();

// Whether the last kernel launched by this thread computes "all elements are true", whose result is then taken as true.
bool LastKernelWasAnd();

// What generate/driver.py reads off NVIDIA's public headers at build time.

// One export as cuGetProcAddress knows it: cuMemAlloc from version 3020 on is cuMemAlloc_v2.
struct EntryPoint {
  const char* base_name;
  int version;      // the first CUDA version with it
  bool per_thread;  // the _ptsz or _ptds form
  void* address;
};

// Sorted by base_name; the forms of one name by ascending version.
extern const EntryPoint kEntryPoints[];
extern const size_t kEntryPointCount;

// "CUDA_ERROR_OUT_OF_MEMORY", or null for a number that is not a CUresult.
const char* ResultName(CUresult result);

}  // namespace simcuda

#endif  // SIMCUDA_DRIVER_DRIVER_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuInit and what works before it: versions, entry points, the names of results, the observer of memory.
//
// cuGetProcAddress has both forms. Only base names resolve ("cuMemAlloc", never "cuMemAlloc_v2"): the answer is the
// newest export that `cudaVersion` knows, in its per-thread-stream form where the flags ask for it.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "simcuda/base/environment.h"
#include "simcuda/base/memory_observer.h"
#include "simcuda/base/note.h"
#include "simcuda/device/machine.h"
#include "simcuda/driver/driver.h"

namespace simcuda {
namespace {

using Slot = std::atomic<Simulation*>;

// Holds the simulation in a page that the kernel empties in a forked child: contexts do not survive a fork there
// either.
std::atomic<Slot*> g_slot{nullptr};
std::once_flag g_init_once;
CUresult g_init_result = CUDA_ERROR_NOT_INITIALIZED;

// CUDA_INJECTION64_PATH: as with the real driver, the tool is loaded even where there is no device.
void LoadInjection() {
  const std::string& path = GetEnvironment().injection_path;
  if (path.empty()) return;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return;
  using Initialize = int (*)();
  if (const auto initialize = reinterpret_cast<Initialize>(::dlsym(library, "InitializeInjection"))) initialize();
}

// Never freed. Leak checkers do not look into the page that holds it.
Simulation* volatile g_kept = nullptr;

// Addresses that a WSL2 context holds until the first kernel: by the look of it 1 KiB for each thread that the device
// can have at a time (simcuda/README.md, "Order of addresses").
uint64_t ContextRange(const Environment& environment) {
  const int threads = environment.multiprocessors * environment.multiprocessor.max_threads;
  return environment.address_order == AddressOrder::kWsl2 ? static_cast<uint64_t>(threads) << 10 : 0;
}

void Initialize() {
  const Environment& environment = GetEnvironment();
  if (environment.visible_devices.empty()) {
    g_init_result = CUDA_ERROR_NO_DEVICE;
    return;
  }
  auto* const simulation = new Simulation({.device_count = static_cast<int>(environment.visible_devices.size()),
                                           .memory_bytes = environment.memory_bytes,
                                           .context_bytes = environment.context_bytes,
                                           .others_bytes = environment.others_bytes,
                                           .shared_path = environment.shared_path,
                                           .physical = environment.visible_devices,
                                           .module_bytes = environment.module_bytes,
                                           .content_bytes = environment.content_bytes,
                                           .overcommit = environment.overcommit,
                                           .fail_first = environment.fail_first,
                                           .fail_count = environment.fail_count,
                                           .fail_result = environment.fail_result,
                                           .log_pattern = environment.log_pattern,
                                           .address_order = environment.address_order,
                                           .context_range = ContextRange(environment)});
  if (!simulation->machine.ok()) {
    PrintLine("cannot map the simulated devices' address space (ulimit -v?)");
    g_init_result = CUDA_ERROR_OUT_OF_MEMORY;
    return;
  }
  const auto page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const page = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    g_init_result = CUDA_ERROR_OUT_OF_MEMORY;
    return;
  }
  ::madvise(page, page_bytes, MADV_WIPEONFORK);  // without it (before Linux 4.14) a child keeps the parent's state
  static_cast<Slot*>(page)->store(simulation, std::memory_order_release);
  g_kept = simulation;
  g_slot.store(static_cast<Slot*>(page), std::memory_order_release);
  g_init_result = CUDA_SUCCESS;
}

__attribute__((destructor)) void PrintStatistics() {
  Simulation* const simulation = GetSimulation();
  if (simulation == nullptr || !GetEnvironment().print_statistics) return;
  Machine& machine = simulation->machine;
  for (const auto& device : machine.devices) {
    PrintLine(
        "device %d: peak used %.1f MiB, peak requested %.1f MiB, used %.1f MiB; process: %llu allocation calls, "
        "%llu frees, %llu launches, %llu copies",
        device->device(), static_cast<double>(device->peak_used_bytes()) / (1 << 20),
        static_cast<double>(device->peak_live_bytes()) / (1 << 20),
        static_cast<double>(device->used_bytes()) / (1 << 20),
        static_cast<unsigned long long>(machine.allocation_calls), static_cast<unsigned long long>(machine.free_calls),
        static_cast<unsigned long long>(LaunchCount()), static_cast<unsigned long long>(machine.copies));
  }
}

}  // namespace

Simulation* GetSimulation() {
  const Slot* const slot = g_slot.load(std::memory_order_acquire);
  return slot == nullptr ? nullptr : slot->load(std::memory_order_acquire);
}

CUresult CheckDevice(CUdevice device) {
  const Simulation* const simulation = GetSimulation();
  if (simulation == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return device >= 0 && device < simulation->machine.device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace simcuda

using namespace simcuda;  // NOLINT: this file defines C functions only

extern "C" {

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  bool first = false;
  std::call_once(g_init_once, [&first] {
    Initialize();
    first = true;
  });
  if (first) LoadInjection();  // outside of call_once: a tool may call cuInit itself
  if (g_init_result == CUDA_SUCCESS && GetSimulation() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;  // forked
  return g_init_result;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = GetEnvironment().driver_version;
  return CUDA_SUCCESS;
}

// What this process uses of a physical device, for the NVML stub; 0 before cuInit and for a device that it cannot
// see.
__attribute__((visibility("default"))) uint64_t simcuda_used_bytes(int physical_device) {
  Simulation* const simulation = GetSimulation();
  if (simulation == nullptr) return 0;
  const std::lock_guard lock(simulation->machine.mutex);
  for (const auto& device : simulation->machine.devices) {
    if (device->physical() == physical_device) return device->used_bytes();
  }
  return 0;
}

}  // extern "C"

namespace {

constexpr cuuint64_t kKnownFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

struct ByName {
  bool operator()(const EntryPoint& entry, const char* name) const { return std::strcmp(entry.base_name, name) < 0; }
  bool operator()(const char* name, const EntryPoint& entry) const { return std::strcmp(name, entry.base_name) < 0; }
};

CUdriverProcAddressQueryResult Resolve(const char* name, int version, bool per_thread, void** address) {
  *address = nullptr;
  const auto [begin, end] = std::equal_range(kEntryPoints, kEntryPoints + kEntryPointCount, name, ByName());
  if (begin == end) return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  int newest = -1;
  for (const EntryPoint* entry = begin; entry != end; ++entry) {
    if (entry->version > version || (entry->per_thread && !per_thread)) continue;
    // Of the same or a newer version; a per-thread form also beats the plain form that came before it.
    const bool better = entry->version > newest || (entry->version == newest && entry->per_thread);
    if (!better) continue;
    newest = entry->version;
    *address = entry->address;
  }
  return *address != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const CUdriverProcAddressQueryResult answer = Resolve(symbol, version, per_thread, function);
  if (status != nullptr) *status = answer;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  if (symbol == nullptr || function == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  void* address = nullptr;
  if (Resolve(symbol, version, per_thread, &address) != CU_GET_PROC_ADDRESS_SUCCESS) return CUDA_ERROR_NOT_FOUND;
  *function = address;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = ResultName(error);
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = ErrorText(error);
  if (*text == nullptr) *text = ResultName(error);
  return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuProfilerStart();
CUresult cuProfilerStop();
CUresult cuProfilerStart() { return CheckContext(); }
CUresult cuProfilerStop() { return CheckContext(); }

// The simulated CUPTI's way to what the driver does with memory (base/memory_observer.h).
// One observer a process; null for none any more.
__attribute__((visibility("default"))) void simcuda_observe(simcuda_observer observer) {
  simcuda::Machine::Observe(observer);
}

}  // extern "C"

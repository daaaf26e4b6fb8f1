// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Local memory of kernels: what a thread spills and its arrays. The driver takes it for all threads that the device can
// hold at once when a kernel is launched that needs more than any before, and keeps it as long as the context lives:
//
//   (largest local memory of a launched kernel - the stack limit) x multiprocessors x threads of each
//
// which on an H100 is what the device's used memory grew by, for 4 and for 64 KiB a thread. No call names it, so it is
// asked of a kernel once, right after its first launch, when nothing about it is loaded any more. A launch costs one
// load and one comparison. Asked is only of handles that were seen to be given out, since the driver has two sorts of
// them; a kernel whose handle nobody saw stays unknown.
//
//   g_kernels | handle and what it is |   by a hash of the handle; of two with one place the one given out last is kept
//
// Thread-safety: any thread; entries are single words. Failure: nothing is recorded.

#include <array>
#include <atomic>

#include "shim/hooks/cuda_api.h"
#include "shim/hooks/device.h"
#include "shim/hooks/kernels.h"
#include "shim/hooks/record.h"

namespace gpumemshim::hooks {
namespace {

constexpr uint32_t kKernels = 8192, kContexts = 64;  // powers of two
// In the low bits of an entry; handles are pointers to what is aligned.
constexpr uint64_t kIsFunction = 1, kIsKernel = 2, kAsked = 4, kBits = 7;

std::array<std::atomic<uint64_t>, kKernels> g_kernels;

// Most local bytes of a thread that a kernel of the context needed so far.
struct ContextUse {
  std::atomic<uint64_t> context;
  std::atomic<uint64_t> bytes;
};
std::array<ContextUse, kContexts> g_contexts;

std::atomic<uint64_t>& EntryOf(uint64_t handle) {
  return g_kernels[handle * 0x9e3779b97f4a7c15u >> 51];  // the highest 13 bits
}

void Remember(uint64_t handle, uint64_t sort) {
  if (handle != 0 && (handle & kBits) == 0) EntryOf(handle).store(handle | sort, std::memory_order_relaxed);
}

// What the context's threads have anyway.
uint64_t StackLimit() {
  static std::atomic<void*> slot;
  const auto get = CachedDriverFunction<decltype(&::cuCtxGetLimit)>(slot, "cuCtxGetLimit");
  size_t bytes = 0;
  return get != nullptr && get(&bytes, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS ? bytes : UINT64_MAX;
}

uint64_t ThreadsOf(CUdevice device) {
  static std::atomic<void*> slot;
  const auto get = CachedDriverFunction<decltype(&::cuDeviceGetAttribute)>(slot, "cuDeviceGetAttribute");
  int processors = 0, threads = 0;
  if (get == nullptr || get(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS ||
      get(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device) != CUDA_SUCCESS)
    return 0;
  return static_cast<uint64_t>(processors) * static_cast<uint64_t>(threads);
}

uint64_t LocalBytes(uint64_t handle, uint64_t sort, CUdevice device) {
  static std::atomic<void*> of_function;
  static std::atomic<void*> of_kernel;
  int bytes = 0;
  CUresult result = CUDA_ERROR_NOT_FOUND;
  if (sort == kIsFunction) {
    const auto get = CachedDriverFunction<decltype(&::cuFuncGetAttribute)>(of_function, "cuFuncGetAttribute");
    if (get != nullptr) result = get(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, reinterpret_cast<CUfunction>(handle));
  } else {
    const auto get = CachedDriverFunction<decltype(&::cuKernelGetAttribute)>(of_kernel, "cuKernelGetAttribute");
    if (get != nullptr)
      result = get(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, reinterpret_cast<CUkernel>(handle), device);
  }
  return result == CUDA_SUCCESS && bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

// True where it is the context's largest so far. A context that finds no place has none.
bool IsLargest(uint64_t context, uint64_t bytes) {
  for (ContextUse& use : g_contexts) {
    uint64_t known = use.context.load(std::memory_order_acquire);
    if (known == 0 && use.context.compare_exchange_strong(known, context, std::memory_order_acq_rel)) known = context;
    if (known != context) continue;
    uint64_t most = use.bytes.load(std::memory_order_relaxed);
    while (bytes > most) {
      if (use.bytes.compare_exchange_weak(most, bytes, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  return false;
}

uint64_t CurrentContext() {
  static std::atomic<void*> slot;
  const auto get = CachedDriverFunction<decltype(&::cuCtxGetCurrent)>(slot, "cuCtxGetCurrent");
  CUcontext context = nullptr;
  return get != nullptr && get(&context) == CUDA_SUCCESS ? AddressOf(context) : 0;
}

[[gnu::cold, gnu::noinline]] void Ask(ApiId api, uint64_t handle, uint64_t sort) {
  if (session::IsOff()) return;
  const ErrnoSaver saver;
  const int16_t device = CurrentDevice();
  const uint64_t context = CurrentContext(), limit = StackLimit();
  if (device == kNoDevice || context == 0) return;
  EntryOf(handle).store(handle | sort | kAsked, std::memory_order_relaxed);
  const uint64_t bytes = LocalBytes(handle, sort, device);
  if (bytes <= limit || !IsLargest(context, bytes)) return;
  Event event = MakeEvent(api, EventKind::kLocalMemory, Memory::kDevice);
  event.device = device;
  event.handle = OwnContext();
  event.size = (bytes - limit) * ThreadsOf(device);
  event.requested_size = bytes;
  if (event.size != 0) Emit(event);
}

inline CUresult Launched(ApiId api, CUresult result, CUfunction function) {
  const uint64_t handle = AddressOf(function), entry = EntryOf(handle).load(std::memory_order_relaxed);
  if ((entry & ~kBits) == handle && (entry & kAsked) == 0 && result == CUDA_SUCCESS && handle != 0) [[unlikely]]
    Ask(api, handle, entry & kBits);
  return result;
}

template <typename Handle>
CUresult Given(CUresult result, const Handle* out, uint64_t sort) {
  if (result == CUDA_SUCCESS && out != nullptr) Remember(AddressOf(*out), sort);
  return result;
}

}  // namespace

void ForgetLocalMemory() {
  for (ContextUse& use : g_contexts) use.bytes.store(0, std::memory_order_relaxed);
  for (std::atomic<uint64_t>& entry : g_kernels) entry.fetch_and(~kAsked, std::memory_order_relaxed);
}

}  // namespace gpumemshim::hooks

using namespace gpumemshim;         // NOLINT: definitions of C functions
using namespace gpumemshim::hooks;  // NOLINT

extern "C" {

CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  const auto real = GPUMEM_REAL(cuModuleGetFunction);
  if (real == nullptr) return kMissingDriver;
  return Given(real(out, module, name), out, kIsFunction);
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  const auto real = GPUMEM_REAL(cuKernelGetFunction);
  if (real == nullptr) return kMissingDriver;
  return Given(real(out, kernel), out, kIsFunction);
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  const auto real = GPUMEM_REAL(cuLibraryGetKernel);
  if (real == nullptr) return kMissingDriver;
  return Given(real(out, library, name), out, kIsKernel);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** arguments,
                        void** extra) {
  const auto real = GPUMEM_REAL(cuLaunchKernel);
  if (real == nullptr) return kMissingDriver;
  return Launched(
      ApiId::kcuLaunchKernel,
      real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments, extra),
      function);
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
                             void** arguments, void** extra) {
  const auto real = GPUMEM_REAL(cuLaunchKernel_ptsz);
  if (real == nullptr) return kMissingDriver;
  return Launched(
      ApiId::kcuLaunchKernel_ptsz,
      real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments, extra),
      function);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
  const auto real = GPUMEM_REAL(cuLaunchKernelEx);
  if (real == nullptr) return kMissingDriver;
  return Launched(ApiId::kcuLaunchKernelEx, real(config, function, arguments, extra), function);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
  const auto real = GPUMEM_REAL(cuLaunchKernelEx_ptsz);
  if (real == nullptr) return kMissingDriver;
  return Launched(ApiId::kcuLaunchKernelEx_ptsz, real(config, function, arguments, extra), function);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void** arguments) {
  const auto real = GPUMEM_REAL(cuLaunchCooperativeKernel);
  if (real == nullptr) return kMissingDriver;
  return Launched(ApiId::kcuLaunchCooperativeKernel,
                  real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments),
                  function);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                        CUstream stream, void** arguments) {
  const auto real = GPUMEM_REAL(cuLaunchCooperativeKernel_ptsz);
  if (real == nullptr) return kMissingDriver;
  return Launched(ApiId::kcuLaunchCooperativeKernel_ptsz,
                  real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments),
                  function);
}

}  // extern "C"

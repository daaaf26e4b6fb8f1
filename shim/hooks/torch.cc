// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// PyTorch's caching allocator, through the functions by which it reports to its profiler on every allocation and free,
// whether or not a profiler runs. They are called with the allocator's mutex held: nothing here takes the GIL or calls
// into PyTorch, the function that we stand in front of excepted.
//
// Both manglings are defined (the totals were signed up to PyTorch 2.0). Reports of other devices are passed on.

#include "shim/hooks/record.h"
#include "shim/hooks/torch_function.h"
#include "shim/hooks/torch_request.h"

namespace gpumemshim::hooks {
namespace {

// c10::Device as it is passed: two bytes in one register.
struct Device {
  int8_t type;
  int8_t index;
};
constexpr int8_t kCudaDeviceType = 1;

// cudaErrorMemoryAllocation: what the allocator's last cudaMalloc answered.
constexpr int32_t kOutOfMemory = 2;

using Report = void (*)(void*, int64_t, uint64_t, uint64_t, Device);
using ReportOutOfMemory = void (*)(int64_t, uint64_t, uint64_t, Device);

void RecordReport(const void* address, int64_t size, uint64_t allocated, uint64_t reserved, Device device) {
  if (device.type != kCudaDeviceType || size == 0 || session::IsOff()) return;
  // A block inside a segment is its own layer, so this is no nested call; but our own calls below must pass through.
  const Scope scope;
  Event event = size > 0 ? MakeEvent(ApiId::kTorchMalloc, EventKind::kAlloc, Memory::kDevice)
                         : MakeEvent(ApiId::kTorchFree, EventKind::kFree, Memory::kDevice);
  event.address = reinterpret_cast<uint64_t>(address);
  event.size = static_cast<uint64_t>(size > 0 ? size : -size);
  event.device = device.index;  // NOLINT(bugprone-signed-char-misuse): -1 is "no device" on both sides
  event.torch_allocated = allocated;
  event.torch_reserved = reserved;
  if (size < 0) return EmitFree(event);
  torch_request::Describe(device.index, &event);
  Emit(event);
  session::SawBlock();
}

void RecordOutOfMemory(int64_t size, uint64_t allocated, uint64_t reserved, Device device) {
  if (device.type != kCudaDeviceType || session::IsOff()) return;
  const ErrnoSaver saver;
  const Scope scope;
  Event event = MakeEvent(ApiId::kTorchMalloc, EventKind::kAllocFailed, Memory::kDevice);
  event.size = static_cast<uint64_t>(size);
  event.device = device.index;  // NOLINT(bugprone-signed-char-misuse): -1 is "no device" on both sides
  event.result = kOutOfMemory;
  event.torch_allocated = allocated;
  event.torch_reserved = reserved;
  torch_request::Describe(device.index, &event);
  Emit(event);
}

}  // namespace

// `name` must be a literal: it is both the exported symbol and the one looked for behind us.
#define GPUMEM_REPORT(function, name)                                                                              \
  extern "C" __attribute__((visibility("default"))) void function(void* address, int64_t size, uint64_t allocated, \
                                                                  uint64_t reserved, Device device) asm(name);     \
  void function(void* address, int64_t size, uint64_t allocated, uint64_t reserved, Device device) {               \
    static constinit TorchFunction real{"libc10.so", name};                                                        \
    RecordReport(address, size, allocated, reserved, device);                                                      \
    if (auto report = reinterpret_cast<Report>(real.Find()); report != nullptr)                                    \
      report(address, size, allocated, reserved, device);                                                          \
  }

#define GPUMEM_REPORT_OOM(function, name)                                                                              \
  extern "C" __attribute__((visibility("default"))) void function(int64_t size, uint64_t allocated, uint64_t reserved, \
                                                                  Device device) asm(name);                            \
  void function(int64_t size, uint64_t allocated, uint64_t reserved, Device device) {                                  \
    static constinit TorchFunction real{"libc10.so", name};                                                            \
    RecordOutOfMemory(size, allocated, reserved, device);                                                              \
    if (auto report = reinterpret_cast<ReportOutOfMemory>(real.Find()); report != nullptr)                             \
      report(size, allocated, reserved, device);                                                                       \
  }

GPUMEM_REPORT(ReportMemoryUsage, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")
GPUMEM_REPORT(ReportMemoryUsageSigned, "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE")
GPUMEM_REPORT_OOM(ReportOutOfMemoryUnsigned, "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE")
GPUMEM_REPORT_OOM(ReportOutOfMemorySigned, "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE")

}  // namespace gpumemshim::hooks

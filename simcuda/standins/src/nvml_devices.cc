// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "nvml_devices.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

namespace simnvml {
namespace {

constexpr unsigned kMaxDevices = 64;

template <typename Function>
Function* Driver(const char* name) {
  return reinterpret_cast<Function*>(standin_driver_if_loaded(name));
}

// The simulated driver's own identities of a physical device.
CUuuid UuidOf(unsigned index) {
  CUuuid uuid;
  memset(uuid.bytes, 0x5a, sizeof(uuid.bytes));
  uuid.bytes[15] = static_cast<char>(index);
  return uuid;
}
constexpr unsigned kFirstBus = 0x18;

// The driver's number for a physical device, which CUDA_VISIBLE_DEVICES may have moved; -1 where it is hidden, or the
// driver is not loaded or not initialised.
CUdevice OrdinalOf(unsigned index) {
  auto* count_devices = Driver<CUresult(int*)>("cuDeviceGetCount");
  auto* get_uuid = Driver<CUresult(CUuuid*, CUdevice)>("cuDeviceGetUuid_v2");
  const CUuuid wanted = UuidOf(index);
  int count = 0;
  if (!count_devices || !get_uuid || count_devices(&count) != CUDA_SUCCESS) return -1;
  for (CUdevice device = 0; device < count; ++device) {
    CUuuid uuid;
    if (get_uuid(&uuid, device) == CUDA_SUCCESS && memcmp(&uuid, &wanted, sizeof(uuid)) == 0) return device;
  }
  return -1;
}

unsigned long long ConfiguredBytes() {
  const size_t total = standin_setting("SIMCUDA_MEM_MB", 143156), cap = standin_setting("SIMCUDA_CAPACITY_MB", total);
  return static_cast<unsigned long long>(total < cap ? total : cap) << 20;
}

// Free and total bytes of a device whose primary context is active; false if it is not.
bool ActiveMemory(CUdevice device, size_t* free_bytes, size_t* total_bytes) {
  auto* state = Driver<CUresult(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState");
  auto* retain = Driver<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
  auto* release = Driver<CUresult(CUdevice)>("cuDevicePrimaryCtxRelease_v2");
  auto* push = Driver<CUresult(CUcontext)>("cuCtxPushCurrent_v2");
  auto* pop = Driver<CUresult(CUcontext*)>("cuCtxPopCurrent_v2");
  auto* info = Driver<CUresult(size_t*, size_t*)>("cuMemGetInfo_v2");
  if (!state || !retain || !release || !push || !pop || !info) return false;
  unsigned flags = 0;
  int active = 0;
  CUcontext context = nullptr;
  if (state(device, &flags, &active) != CUDA_SUCCESS || active == 0) return false;
  if (retain(&context, device) != CUDA_SUCCESS) return false;
  bool known = false;
  if (push(context) == CUDA_SUCCESS) {
    known = info(free_bytes, total_bytes) == CUDA_SUCCESS;
    pop(&context);
  }
  release(device);
  return known;
}

}  // namespace

unsigned DeviceCount() {
  const size_t configured = standin_setting("SIMCUDA_DEVICES", 1);
  return configured < kMaxDevices ? static_cast<unsigned>(configured) : kMaxDevices;
}

Memory DeviceMemory(unsigned index) {
  size_t free_bytes = 0, total_bytes = 0;
  const CUdevice device = OrdinalOf(index);
  if (device >= 0 && ActiveMemory(device, &free_bytes, &total_bytes)) {
    const unsigned long long used = total_bytes - free_bytes;
    return {total_bytes, used, used};
  }
  return {ConfiguredBytes(), 0, 0};
}

const char* DeviceName() {
  const char* name = getenv("SIMCUDA_NAME");
  return name != nullptr && *name != '\0' ? name : "SimCUDA H200";
}

void ComputeCapability(int* major, int* minor) {
  const size_t capability = standin_setting("SIMCUDA_CC", 90);
  *major = static_cast<int>(capability / 10);
  *minor = static_cast<int>(capability % 10);
}

unsigned Multiprocessors() { return static_cast<unsigned>(standin_setting("SIMCUDA_SMS", 132)); }
int DriverVersion() { return static_cast<int>(standin_setting("SIMCUDA_DRIVER_VERSION", 13000)); }

void PciBusId(unsigned index, char (&out)[kPciBusIdSize]) {
  snprintf(out, sizeof(out), "00000000:%02X:00.0", kFirstBus + index);
}

void Uuid(unsigned index, char* out, size_t size) {
  const CUuuid uuid = UuidOf(index);
  char hex[33] = "";
  for (size_t i = 0; i < 16; ++i) snprintf(hex + 2 * i, 3, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
  snprintf(out, size, "GPU-%.8s-%.4s-%.4s-%.4s-%s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

}  // namespace simnvml

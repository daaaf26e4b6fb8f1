// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "nvml_devices.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

#include "simcuda/base/shared_usage.h"
#include "stub.h"

namespace simnvml {
namespace {

constexpr unsigned kMaxDevices = 64;

using UsedBytes = unsigned long long(int device);

// The driver's count of its process's bytes, null while it is not loaded. Looked for when this library is loaded too,
// so that no question of a driver's user takes the loader's lock: a child that the process makes by clone meanwhile
// would find it taken for good.
UsedBytes* FindUsedBytes() {
  static std::atomic<UsedBytes*> known{nullptr};
  UsedBytes* found = known.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = reinterpret_cast<UsedBytes*>(stub_driver_if_loaded("simcuda_used_bytes"));
    known.store(found, std::memory_order_release);
  }
  return found;
}

__attribute__((constructor)) void LookForDriver() { FindUsedBytes(); }

// The simulated driver's own identities of a physical device.
CUuuid UuidOf(unsigned index) {
  CUuuid uuid;
  memset(uuid.bytes, 0x5a, sizeof(uuid.bytes));
  uuid.bytes[15] = static_cast<char>(index);
  return uuid;
}
constexpr unsigned kFirstBus = 0x18;

unsigned long long ConfiguredBytes() {
  const size_t total = stub_setting("SIMCUDA_MEM_MB", 143156), cap = stub_setting("SIMCUDA_CAPACITY_MB", total);
  return static_cast<unsigned long long>(total < cap ? total : cap) << 20;
}

// The file through which processes share the machine, or null; opened at the first question.
simcuda::SharedUsage* Shared() {
  static simcuda::SharedUsage* shared = nullptr;
  static bool asked = false;
  if (!asked) {  // two threads at once open it twice, which costs a mapping
    const char* path = getenv("SIMCUDA_SHARED");
    if (path != nullptr && *path != '\0') shared = simcuda::SharedUsage::Open(path);
    asked = true;
  }
  return shared;
}

}  // namespace

unsigned DeviceCount() {
  const size_t configured = stub_setting("SIMCUDA_DEVICES", 1);
  return configured < kMaxDevices ? static_cast<unsigned>(configured) : kMaxDevices;
}

unsigned Processes(unsigned index, Process (&out)[kMaxProcesses]) {
  unsigned count = 0;
  UsedBytes* own = FindUsedBytes();
  const unsigned long long own_bytes = own != nullptr ? own(static_cast<int>(index)) : 0;
  if (own_bytes > 0) out[count++] = {static_cast<unsigned>(getpid()), own_bytes};
  simcuda::SharedUsage::Process others[simcuda::SharedUsage::kSlots];
  const int other_count =
      Shared() != nullptr ? Shared()->Others(static_cast<int>(index), others, simcuda::SharedUsage::kSlots) : 0;
  for (int i = 0; i < other_count; ++i) out[count++] = {others[i].id, others[i].bytes};
  const unsigned long long made_up = static_cast<unsigned long long>(stub_setting("SIMCUDA_OTHERS_MB", 0)) << 20;
  if (made_up > 0) out[count++] = {simcuda::kMadeUpProcess, made_up};
  return count;
}

Memory DeviceMemory(unsigned index) {
  Process processes[kMaxProcesses];
  unsigned long long used = 0;
  const unsigned count = Processes(index, processes);
  for (unsigned i = 0; i < count; ++i) used += processes[i].bytes;
  const unsigned long long reserved = static_cast<unsigned long long>(stub_setting("SIMCUDA_RESERVED_MB", 0)) << 20;
  return {ConfiguredBytes() + reserved, reserved, used};
}

const char* DeviceName() {
  const char* name = getenv("SIMCUDA_NAME");
  return name != nullptr && *name != '\0' ? name : "SimCUDA H200";
}

void ComputeCapability(int* major, int* minor) {
  const size_t capability = stub_setting("SIMCUDA_CC", 90);
  *major = static_cast<int>(capability / 10);
  *minor = static_cast<int>(capability % 10);
}

unsigned Multiprocessors() { return static_cast<unsigned>(stub_setting("SIMCUDA_SMS", 132)); }
int DriverVersion() { return static_cast<int>(stub_setting("SIMCUDA_DRIVER_VERSION", 13000)); }

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

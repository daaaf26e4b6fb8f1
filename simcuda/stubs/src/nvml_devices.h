// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What NVML's stub knows of the simulated devices: how they are configured (SIMCUDA_DEVICES, SIMCUDA_MEM_MB,
// SIMCUDA_NAME, SIMCUDA_CC, ...; physical devices, whatever CUDA_VISIBLE_DEVICES says), and what is used of their
// memory: by this process, which the simulated driver tells where it runs in it, by those that share the machine
// (SIMCUDA_SHARED), and by the made-up one (SIMCUDA_OTHERS_MB).
//
// Thread-safety: stateless, all functions. It never initialises the driver and never creates a context.
#ifndef SIMCUDA_STUBS_NVML_DEVICES_H_
#define SIMCUDA_STUBS_NVML_DEVICES_H_

#include <stddef.h>

namespace simnvml {

struct Memory {
  unsigned long long total_bytes;     // what cuMemGetInfo calls the total, and what the driver keeps
  unsigned long long reserved_bytes;  // SIMCUDA_RESERVED_MB: what the driver keeps for itself
  unsigned long long used_bytes;      // by processes: what Processes() lists
};

struct Process {
  unsigned id;
  unsigned long long bytes;
};
constexpr unsigned kMaxProcesses = 72;  // this one, those that share the machine, the made-up one

// The processes that hold memory of the device: this one first, where it has any.
unsigned Processes(unsigned index, Process (&out)[kMaxProcesses]);

constexpr int kPciBusIdSize = 32;

unsigned DeviceCount();
Memory DeviceMemory(unsigned index);
const char* DeviceName();
void ComputeCapability(int* major, int* minor);
unsigned Multiprocessors();
int DriverVersion();                                        // 13000 and the like
void PciBusId(unsigned index, char (&out)[kPciBusIdSize]);  // "00000000:01:00.0"
void Uuid(unsigned index, char* out, size_t size);          // "GPU-xxxxxxxx-xxxx-..."

}  // namespace simnvml

#endif  // SIMCUDA_STUBS_NVML_DEVICES_H_

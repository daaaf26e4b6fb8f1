// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What NVML's stand-in knows of the simulated devices: how they are configured (SIMCUDA_DEVICES, SIMCUDA_MEM_MB,
// SIMCUDA_NAME, SIMCUDA_CC, ...; physical devices, whatever CUDA_VISIBLE_DEVICES says), and what is used of their
// memory from the simulated driver where it runs in this process.
//
// Thread-safety: stateless, all functions. It never initialises the driver and never creates a context.
#ifndef SIMCUDA_STANDINS_NVML_DEVICES_H_
#define SIMCUDA_STANDINS_NVML_DEVICES_H_

#include <stddef.h>

namespace simnvml {

struct Memory {
  unsigned long long total_bytes;
  unsigned long long used_bytes;     // by every process that the simulated driver accounts for: this one
  unsigned long long process_bytes;  // by this process; 0 without a context on the device
};

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

#endif  // SIMCUDA_STANDINS_NVML_DEVICES_H_

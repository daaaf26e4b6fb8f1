// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the machine says of host memory: this process's resident bytes, the machine's RAM. Read from /proc.
//
// Thread-safety: stateless. Failure: 0 = not known.

#ifndef GPUMEM_SHIM_WITNESS_SAMPLER_MACHINE_MEMORY_H_
#define GPUMEM_SHIM_WITNESS_SAMPLER_MACHINE_MEMORY_H_

#include <cstdint>

namespace gpumemshim::sampler {

uint64_t ResidentBytes();
void ReadMachineMemory(uint64_t* total, uint64_t* available);

// The value of "Name:   123 kB" in bytes.
uint64_t FindKilobytes(const char* text, const char* name);

}  // namespace gpumemshim::sampler

#endif  // GPUMEM_SHIM_WITNESS_SAMPLER_MACHINE_MEMORY_H_

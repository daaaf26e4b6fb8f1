// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Which of a device's processes is this one. NVML speaks of processes by the ids of the machine; inside a container a
// process has another id than outside, and nothing there tells which. So the id decides only where it can:
//
//   our ids are the machine's             the entry with our id                       kByPid
//   a namespace, an entry has our id      that one: the driver translates, as some do  kByPidInside
//   a namespace, one entry in all         that one                                     kOnlyOne
//   else                                  not known: under MPS, too, where the server holds all memory
//
// Thread-safety: stateless. Failure: kUnknown.

#ifndef GPUMEM_SHIM_WITNESS_SAMPLER_OWN_PROCESS_H_
#define GPUMEM_SHIM_WITNESS_SAMPLER_OWN_PROCESS_H_

#include <cstdint>

#include "shim/witness/sampler/sample.h"

namespace gpumemshim::sampler {

// Whether process ids are those of the machine. Without /proc: not.
bool InMachinesNamespace();

// Fills own, own_process, others, other_count and others_kept of `out` from a device's processes, which it may reorder.
void SplitProcesses(uint32_t own_pid, bool machine_ids, ProcessUse* processes, uint32_t count, DeviceSample* out);

// The kernel's name of a process of our namespace; "" where it is not known.
void ReadProcessName(uint32_t pid, char* out, uint32_t capacity);

}  // namespace gpumemshim::sampler

#endif  // GPUMEM_SHIM_WITNESS_SAMPLER_OWN_PROCESS_H_

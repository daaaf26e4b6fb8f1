// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Makes the ring's mapping: a file of its own, named gpumem.PID.STARTTIME.ring, all blocks allocated (a full tmpfs must
// not become a SIGBUS in the host), or anonymous memory where no file can be had. Not inherited by children.
//
// Thread-safety: one thread at a time. Failure: nullptr. errno may change.
//
//   char path[256];
//   bool locked;
//   void* memory = MapRing("/dev/shm", bytes, path, sizeof(path), &locked);

#ifndef GPUMEM_SHIM_RING_MAPPING_H_
#define GPUMEM_SHIM_RING_MAPPING_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim::ring {

// directory may be nullptr. Sets path to "" where the memory is anonymous. *locked: others can tell by flock whether
// the process has it still.
void* MapRing(const char* directory, size_t bytes, char* path, size_t path_capacity, bool* locked);

// Field 22 of /proc/self/stat; 0 where it cannot be read.
uint64_t ProcessStartTicks();

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_MAPPING_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The ring's memory: a file of its own, named gpumemshim.PID.STARTTIME.ID.ring, in the directory that is asked for;
// where that has no room, beside the trace; else anonymous memory. Not inherited by children.
//
// The whole ring has address space from the start. The file is as long as what the ring may take now (its claim: what
// others count, room.h), and of that the first part has blocks; the rest gets them before it is stored to, so a full
// file system never becomes a SIGBUS in the host.
//
//   |header, descriptors, names, first chunks|...... claimed ......|......... address space only ........|
//
// Thread-safety: MapRing and ClaimBytes one thread at a time; AllocateBlocks and FreeBlocks whoever has the turn
// (growth.cc). Failure: memory is nullptr, or false. errno may change.
//
//   Mapping mapping = MapRing(config, bytes);

#ifndef GPUMEM_SHIM_RING_MAPPING_H_
#define GPUMEM_SHIM_RING_MAPPING_H_

#include <cstddef>
#include <cstdint>

#include "shim/ring/ring.h"

namespace gpumemshim::ring {

struct Mapping {
  void* memory = nullptr;
  size_t bytes = 0;          // of address space
  size_t claimed_bytes = 0;  // of the file
  size_t present_bytes = 0;  // that have blocks
  bool locked = false;       // others can tell by flock whether the process has it still
  bool populates = false;    // AllocateBlocks works from a hook
  uint64_t id = 0;
  uint64_t device = 0, inode = 0;
  char path[512] = "";  // "" where it is anonymous memory
};

// At most `bytes`, less where there is less room or address space, not below kMinSizeBytes.
Mapping MapRing(const Config& config, size_t bytes);

// Makes the active ring's file at least so long, if there is room for that. Returns how long it is.
size_t ClaimBytes(size_t bytes);

// Gives a part of the active ring its blocks, from the offset on; multiples of a page. False: no room, or a kernel
// before 5.14 and not the writer thread's call. FreeBlocks: the opposite.
bool AllocateBlocks(size_t offset, size_t bytes);
void FreeBlocks(size_t offset, size_t bytes);

// Field 22 of /proc/self/stat; 0 where it cannot be read.
uint64_t ProcessStartTicks();

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_MAPPING_H_

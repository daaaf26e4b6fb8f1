// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How much of a file system the rings may take, so that a program never notices that it is recorded by a "No space left
// on device" of its own: /dev/shm of a container has 64 MiB as a rule, and DataLoaders and NCCL need them.
//
//   all rings of this user there     1/16 of the file system; rings grow in its first half, the other is for new ones
//   one ring                         1/4 of that
//   what a ring takes now            1/8 of what is free now, and of what the memory cgroups leave
//
// Of a ring whose process is gone, and which stays for a while (docs/ring.md), only the blocks that it has count.
//
// Called where a ring is made or grows beyond its claim, never in a hook. Uses no heap. Failure: a file system that
// does not say its size sets no limit; one that cannot be asked has no room.
//
//   const Room room = RoomIn("/dev/shm");
//   if (room.free_bytes < bytes) ...

#ifndef GPUMEM_SHIM_RING_ROOM_H_
#define GPUMEM_SHIM_RING_ROOM_H_

#include <cstdint>

namespace gpumemshim::ring {

inline constexpr uint64_t kShareOfMount = 16;
inline constexpr uint64_t kShareOfRings = 4;
inline constexpr uint64_t kShareOfFree = 8;
inline constexpr uint64_t kNoLimit = UINT64_MAX;

// What the kernel says.
struct RoomFacts {
  uint64_t mount_bytes = 0;  // 0 = it has no limit of its own
  uint64_t free_bytes = 0;
  uint64_t rings_bytes = 0;          // what rings of this user may take of it, all together, as of now
  uint64_t memory_bytes = kNoLimit;  // left to the memory cgroups that we are in
};

struct Room {
  uint64_t most_bytes = 0;    // of one ring, whatever happens
  uint64_t free_bytes = 0;    // of it, that may be taken now
  uint64_t growth_bytes = 0;  // of these, by what a ring is larger than at its beginning
};

Room RoomOf(const RoomFacts& facts);

// False: it cannot be asked.
bool ReadRoomFacts(const char* directory, RoomFacts* facts);

inline Room RoomIn(const char* directory) {
  RoomFacts facts;
  return ReadRoomFacts(directory, &facts) ? RoomOf(facts) : Room();
}

// What the tightest memory cgroup of this process leaves, page cache that can be dropped counted as free; kNoLimit
// where none sets a limit. `root` stands before /proc and /sys, for tests.
uint64_t MemoryLeft(const char* root = "");

// Whether rings may lie in this file system where /dev/shm has no room: one of which it is known that blocks once
// allocated can be stored to for good, and that is on this machine.
bool IsGoodForRings(const char* directory);

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_ROOM_H_

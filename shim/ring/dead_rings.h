// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What processes left behind that were killed, or became another program: a ring lies in /dev/shm, which is memory that
// others need, until somebody removes it. Nothing of it may be lost by that: what the trace may lack is put beside the
// trace first, as a ring of its own with only that in it (layout.h), where the analyzer finds it too. Where the trace
// has everything, the copy holds no chunk and is the proof of that.
//
//   /dev/shm/gpumemshim.42.777.1f3a.ring   ->   runs/gpumemshim.train.42.gmtrace.ring
//   no trace was begun                     ->   runs/gpumemshim.train.42.gmtrace.1f3a.ring
//
// Called by the writer thread, and by processes that had children when they end; never in a hook. Uses no heap. Several
// may do it at once, in other processes too: one wins, and a kill at any moment leaves the ring, its copy, or both.
// Whether a process is gone is known by the lock that it has on its ring, in other containers and behind an exec too.
// Any failure means that a ring stays; after kKeepSeconds it is removed all the same, and after an hour where its trace
// was deleted.
//
//   ClearDeadRings("/dev/shm");

#ifndef GPUMEM_SHIM_RING_DEAD_RINGS_H_
#define GPUMEM_SHIM_RING_DEAD_RINGS_H_

#include <sys/types.h>

#include <cstdint>

namespace gpumemshim::ring {

// A ring that cannot be put beside its trace stays for so long.
inline constexpr int64_t kKeepSeconds = 86'400;
inline constexpr int64_t kKeepWithoutTraceSeconds = 3600;
// One without a header: its process is about to write it, or was killed there.
inline constexpr int64_t kUnfinishedSeconds = 60;
// So much in one call; the next one goes on.
inline constexpr uint32_t kMaxRingsAtOnce = 256;

// Looks at the rings of this user in `directory`. Returns how many it removed there.
uint32_t ClearDeadRings(const char* directory);

// The files of rings in a directory, by their names: "gpumemshim.PID.STARTTIME.ID.ring".
//
// Thread-safety: any thread. Uses no heap. The names are only names: whoever made such a file may be anybody.
//
//   ForEachRing(fd, [](void* count, int, const char*) { return ++*static_cast<int*>(count) < 10; }, &count);

// Calls visit(context, directory, name) until it returns false. The directory is read from its beginning.
void ForEachRing(int directory, bool (*visit)(void* context, int directory, const char* name), void* context);

// Whether somebody has the mapping of this open ring still: its owner locks it as long as that. Another one who asks at
// the same time is not taken for the owner.
bool IsHeld(int ring);

// The pid in a ring's name, 0 where it is no such name.
pid_t PidOfRing(const char* name);

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_DEAD_RINGS_H_

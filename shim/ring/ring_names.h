// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The files of rings in a directory, by their names: "gpumemshim.PID.STARTTIME.ID.ring".
//
// Thread-safety: any thread. Uses no heap. The names are only names: whoever made such a file may be anybody.
//
//   ForEachRing(fd, [](void* count, int, const char*) { return ++*static_cast<int*>(count) < 10; }, &count);

#ifndef GPUMEM_SHIM_RING_RING_NAMES_H_
#define GPUMEM_SHIM_RING_RING_NAMES_H_

#include <sys/types.h>

namespace gpumemshim::ring {

// Calls visit(context, directory, name) until it returns false. The directory is read from its beginning.
void ForEachRing(int directory, bool (*visit)(void* context, int directory, const char* name), void* context);

// Whether somebody has the mapping of this open ring still: its owner locks it as long as that. Another one who asks at
// the same time is not taken for the owner.
bool IsHeld(int ring);

// The pid in a ring's name, 0 where it is no such name.
pid_t PidOfRing(const char* name);

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_RING_NAMES_H_

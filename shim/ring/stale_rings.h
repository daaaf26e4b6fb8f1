// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What killed processes left behind: a ring lies in /dev/shm, which is memory, until somebody removes it.
//
// Called where a ring is made, never in a hook. Uses no heap; reads one directory. Any failure means that a file stays.
//
//   RemoveStaleRings("/dev/shm", time(nullptr));

#ifndef GPUMEM_SHIM_RING_STALE_RINGS_H_
#define GPUMEM_SHIM_RING_STALE_RINGS_H_

#include <stdint.h>
#include <time.h>

namespace gpumemshim::ring {

// A ring can be recovered (gpumem report, gpumem recover) for so long after its process went.
inline constexpr time_t kKeepSeconds = 24 * 3600;

// Removes the rings in `directory` that are this user's, whose process is gone from this machine's view, and that were
// made more than kKeepSeconds before `now`. A ring of a living process in another container is only its name poorer:
// the mapping stays, and its recovery after a kill is what is lost. Returns how many were removed.
uint32_t RemoveStaleRings(const char* directory, time_t now);

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_STALE_RINGS_H_

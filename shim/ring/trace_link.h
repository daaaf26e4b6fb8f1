// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the ring's header says of its trace (layout.h), for whoever finds the ring when its process is gone. The rest of
// it is NameTrace and MarkWritten of ring.h.
//
// Thread-safety: before the ring is active.

#ifndef GPUMEM_SHIM_RING_TRACE_LINK_H_
#define GPUMEM_SHIM_RING_TRACE_LINK_H_

#include "shim/ring/layout.h"

namespace gpumemshim::ring {

// The trace is to be at `path`, or, where others have that name already, at one like it. nullptr: nobody knows.
void WantTrace(RingHeader* header, const char* path);

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_TRACE_LINK_H_

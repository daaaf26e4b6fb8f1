// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The copy of a dead process's ring that is put beside its trace (dead_rings.h, layout.h).
//
// Thread-safety: the caller is the only one at this ring. Uses no heap, some 20 KiB of stack. Failure: false, and no
// file was made; a kill leaves one whose name ends in ".part", which the next attempt for the same ring removes.
//
//   if (PutBesideTrace(fd, header)) unlinkat(directory, name, 0);

#ifndef GPUMEM_SHIM_RING_MOVED_RING_H_
#define GPUMEM_SHIM_RING_MOVED_RING_H_

#include "shim/ring/layout.h"

namespace gpumemshim::ring {

// Whether it holds anything at all to tell of: a record, a loss, or a trace that was begun.
bool HasContent(int fd, const RingHeader& header);

// There was a trace, and it was deleted: as far as we see what that process saw.
bool IsTraceDeleted(const RingHeader& header);

// `header` was read from `fd` and is not trusted. True: the copy is there, now or from an earlier attempt.
bool PutBesideTrace(int fd, const RingHeader& header);

}  // namespace gpumemshim::ring

#endif  // GPUMEM_SHIM_RING_MOVED_RING_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Return addresses by following saved frame pointers: half a nanosecond a frame, and right only as far as all code is
// compiled with them (-fno-omit-frame-pointer). Where it is not, the walk ends early or skips callers; it never reads
// outside the stack that it began on.
//
// Thread-safety: any thread, its own stack. The first walk on a stack reads /proc/self/maps. Failure: no frames.

#ifndef GPUMEM_SHIM_STACK_FRAME_POINTERS_H_
#define GPUMEM_SHIM_STACK_FRAME_POINTERS_H_

#include <cstdint>

namespace gpumemshim::stack {

// At most `capacity` addresses, innermost first, beginning with the return address of the frame at `frame`.
uint32_t WalkFramePointers(const void* frame, void** out, uint32_t capacity);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_FRAME_POINTERS_H_

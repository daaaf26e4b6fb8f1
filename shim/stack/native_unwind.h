// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Return addresses of the calling thread. libunwind's unw_backtrace where the machine has it (5 ns a frame once warm),
// else libgcc's unwinder (100 ns a frame). Both are found with dlopen and local scope: in our needed-list libunwind
// would take over the host's C++ exceptions.
//
// Thread-safety: UnwindNative from any thread; LoadUnwinder once, at set-up, outside of any allocator's lock. Failure:
// no frames. A return address never seen before makes the unwinder take the loader's list lock once.

#ifndef GPUMEM_SHIM_STACK_NATIVE_UNWIND_H_
#define GPUMEM_SHIM_STACK_NATIVE_UNWIND_H_

#include <cstdint>

namespace gpumemshim::stack {

enum class Unwinder : uint8_t { kNone, kLibunwind, kLibgcc };

// Returns the one that will be used. kNone asks for none.
Unwinder LoadUnwinder(Unwinder wanted);

Unwinder CurrentUnwinder();

// For the trace's header: "libunwind", "libgcc", "none".
const char* UnwinderName(Unwinder unwinder);

// At most `capacity` addresses, innermost first, the unwinder's and our own frames at the top included.
uint32_t UnwindNative(void** out, uint32_t capacity);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_NATIVE_UNWIND_H_

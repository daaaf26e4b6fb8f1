// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Return addresses of the calling thread, by one of three ways:
//
//   libunwind   unw_backtrace: 5 ns a frame once warm, from a cache by return address that is never emptied
//   libgcc      _Unwind_Backtrace: 100 ns a frame, nothing remembered
//   fp          saved frame pointers
//
// Where libunwind's cache may be stale or is guessing (modules::IsIrregular), libgcc is asked instead. Both are found
// with dlopen and local scope: in our needed-list libunwind would take over the host's C++ exceptions.
//
// Thread-safety: UnwindNative from any thread; LoadUnwinder once, at set-up, outside of any allocator's lock. Failure:
// no frames. A return address never seen before makes the unwinder take the loader's list lock once.

#ifndef GPUMEM_SHIM_STACK_NATIVE_UNWIND_H_
#define GPUMEM_SHIM_STACK_NATIVE_UNWIND_H_

#include <cstdint>

namespace gpumemshim::stack {

enum class Unwinder : uint8_t { kNone, kLibunwind, kLibgcc, kFramePointers };

// How far out native frames are recorded on a thread that runs Python: up to the interpreter, or all.
enum class NativeDepth : uint8_t { kCut, kFull };

// Returns the one that will be used: libgcc's where libunwind is missing. kNone asks for none.
Unwinder LoadUnwinder(Unwinder wanted);

Unwinder CurrentUnwinder();

// For the trace's header: "libunwind", "libgcc", "fp", "none".
const char* UnwinderName(Unwinder unwinder);

inline constexpr uint32_t kMaxUnwind = 272;  // addresses at once

struct Unwound {
  uint32_t count;
  bool cut;        // the last frame's caller could not be told; `count` at the capacity is for the caller to see
  bool irregular;  // holds code about which nothing may be remembered
};

// At most `capacity` <= kMaxUnwind addresses, innermost first, the unwinder's and our own frames at the top included.
Unwound UnwindNative(void** out, uint32_t capacity);

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_NATIVE_UNWIND_H_

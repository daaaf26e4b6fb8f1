// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SafePoint: may a thread that was stopped here make another thread? Making one takes memory and changes the C
// library's lists, so not from inside the allocator, the loader, or what makes and ends threads: the thread may hold
// their locks, or have changed half of what they protect. What stands on its stack decides, and for a thread inside a
// system call which one it is. Where in doubt: no; another moment or thread will do.
//
// Not thread-safe. Failure: false.
//
//   const SafePoint safe_point(map, libc_functions);
//   if (safe_point.Allows(registers, stack_words)) ...

#ifndef GPUMEM_ANALYZER_ATTACH_SAFE_POINT_H_
#define GPUMEM_ANALYZER_ATTACH_SAFE_POINT_H_

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "attach/process_map.h"

namespace gpumem {

// libc.so.6, and before glibc 2.34 those of threads and of the loader's functions.
struct CLibraryPart {
  ObjectFunctions functions;
  AddressRange code;
};

class SafePoint {
 public:
  static constexpr size_t kStackBytes = 512;  // of the stack that are looked at, from the innermost on

  SafePoint(const ProcessMap& map, absl::Span<const CLibraryPart> c_library);

  // `is_left_over(i)`: word i of the stack has been the same for so long that it can only be left from a call that is
  // over, or from one that waits outside of what it calls. It does not count, except as an allocator's of the
  // program's.
  bool Allows(
      const user_regs_struct& registers, absl::Span<const uint64_t> stack,
      absl::FunctionRef<bool(size_t)> is_left_over = [](size_t) { return false; }) const;

  // A thread may wait in this system call for long, and a stop there is not noticed: the kernel goes on with the call,
  // or we make it anew.
  static bool MayStopIn(long system_call);  // NOLINT(google-runtime-int): the kernel's type

  // Those of them that the kernel ends with EINTR: event loops. Other threads come first.
  static bool EndsWithStop(long system_call);  // NOLINT(google-runtime-int): the kernel's type

 private:
  void ForbidFunctionsOf(const CLibraryPart& part);
  bool IsForbidden(uint64_t address) const;

  std::vector<AddressRange> forbidden_, allocators_, c_library_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTACH_SAFE_POINT_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RawSyscall: a system call that leaves errno alone, for code that runs on another thread's thread-local storage.
//
// Thread-safety: any thread, any process that shares our memory. Failure: a negative errno is returned.
//
//   long fd = RawSyscall(SYS_dup, 2);  // -EBADF where 2 is closed

#ifndef GPUMEM_SHIM_WITNESS_OOM_RAW_SYSCALL_H_
#define GPUMEM_SHIM_WITNESS_OOM_RAW_SYSCALL_H_

#include <sys/syscall.h>

#include <type_traits>

namespace gpumemshim::oom {

inline long RawSyscall6(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "How does this machine make a system call?"
#endif
}

template <typename T>
long Word([[maybe_unused]] T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<long>(value);
  } else if constexpr (std::is_null_pointer_v<T>) {
    return 0;
  } else {
    return static_cast<long>(value);
  }
}

template <typename A = long, typename B = long, typename C = long, typename D = long, typename E = long>
long RawSyscall(long number, A a = {}, B b = {}, C c = {}, D d = {}, E e = {}) {
  return RawSyscall6(number, Word(a), Word(b), Word(c), Word(d), Word(e), 0);
}

}  // namespace gpumemshim::oom

#endif  // GPUMEM_SHIM_WITNESS_OOM_RAW_SYSCALL_H_

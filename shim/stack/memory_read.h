// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Reading a structure by offsets. Load trusts its pointer; TryRead does not, and is for the first look at a structure
// whose layout is only presumed.
//
// Thread-safety: pure. Failure: TryRead returns false instead of faulting.

#ifndef GPUMEM_SHIM_STACK_MEMORY_READ_H_
#define GPUMEM_SHIM_STACK_MEMORY_READ_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpumemshim::stack {

template <typename T>
inline T Load(const void* base, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + offset, sizeof value);
  return value;
}

bool TryReadBytes(const void* address, void* out, size_t size);

template <typename T>
bool TryRead(const void* base, size_t offset, T* out) {
  return TryReadBytes(static_cast<const char*>(base) + offset, out, sizeof *out);
}

}  // namespace gpumemshim::stack

#endif  // GPUMEM_SHIM_STACK_MEMORY_READ_H_

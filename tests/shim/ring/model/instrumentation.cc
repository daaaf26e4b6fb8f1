// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The functions that the compiler calls at each access of what is compiled with -fsanitize=thread. The sanitizer's own
// library is not linked: here an atomic operation is a point of the explorer, and a plain access is looked at for
// races. Outside of fibers all of them just do what they say.

#include <cstring>

#include "explorer.h"
#include "memory.h"

namespace {

using model::Explorer;
using model::Memory;

bool Exploring() { return Explorer::Get().IsExploring(); }

template <typename T>
T Load(const volatile T* address, int order) {
  T* const at = const_cast<T*>(address);
  return Exploring() ? static_cast<T>(Memory::Get().Load(at, sizeof(T), order)) : *at;
}

template <typename T>
void Store(volatile T* address, T value, int order) {
  T* const at = const_cast<T*>(address);
  if (Exploring()) {
    Memory::Get().Store(at, sizeof(T), value, order);
  } else {
    *at = value;
  }
}

// `change` gives the new value for the old one.
template <typename T, typename Change>
T Update(volatile T* address, int order, Change change) {
  T* const at = const_cast<T*>(address);
  const bool exploring = Exploring();
  if (exploring) Memory::Get().BeforeUpdate(at, sizeof(T), order);
  const T old = *at;
  *at = change(old);
  if (exploring) Memory::Get().AfterUpdate(at, sizeof(T), order);
  return old;
}

template <typename T>
int CompareExchange(volatile T* address, T* expected, T value, int order) {
  T* const at = const_cast<T*>(address);
  const bool exploring = Exploring();
  if (exploring) Memory::Get().BeforeUpdate(at, sizeof(T), order);
  if (*at != *expected) {
    *expected = *at;
    return 0;
  }
  *at = value;
  if (exploring) Memory::Get().AfterUpdate(at, sizeof(T), order);
  return 1;
}

void Read(const void* address, size_t bytes) {
  if (Exploring()) Memory::Get().PlainRead(address, bytes);
}
void Write(const void* address, size_t bytes) {
  if (Exploring()) Memory::Get().PlainWrite(address, bytes);
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* address, unsigned long bytes) { Read(address, bytes); }
void __tsan_write_range(void* address, unsigned long bytes) { Write(address, bytes); }
void __tsan_atomic_signal_fence(int) {}
void __tsan_atomic_thread_fence(int) {}

#define MODEL_PLAIN(bytes)                                                     \
  void __tsan_read##bytes(void* address) { Read(address, bytes); }             \
  void __tsan_write##bytes(void* address) { Write(address, bytes); }           \
  void __tsan_unaligned_read##bytes(void* address) { Read(address, bytes); }   \
  void __tsan_unaligned_write##bytes(void* address) { Write(address, bytes); } \
  void __tsan_volatile_read##bytes(void* address) { Read(address, bytes); }    \
  void __tsan_volatile_write##bytes(void* address) { Write(address, bytes); }
MODEL_PLAIN(1)
MODEL_PLAIN(2)
MODEL_PLAIN(4)
MODEL_PLAIN(8)
MODEL_PLAIN(16)

#define MODEL_ATOMIC(bits, T)                                                                          \
  T __tsan_atomic##bits##_load(const volatile T* a, int order) { return Load(a, order); }              \
  void __tsan_atomic##bits##_store(volatile T* a, T v, int order) { Store(a, v, order); }              \
  T __tsan_atomic##bits##_exchange(volatile T* a, T v, int order) {                                    \
    return Update(a, order, [v](T) { return v; });                                                     \
  }                                                                                                    \
  T __tsan_atomic##bits##_fetch_add(volatile T* a, T v, int order) {                                   \
    return Update(a, order, [v](T old) { return static_cast<T>(old + v); });                           \
  }                                                                                                    \
  T __tsan_atomic##bits##_fetch_sub(volatile T* a, T v, int order) {                                   \
    return Update(a, order, [v](T old) { return static_cast<T>(old - v); });                           \
  }                                                                                                    \
  T __tsan_atomic##bits##_fetch_or(volatile T* a, T v, int order) {                                    \
    return Update(a, order, [v](T old) { return static_cast<T>(old | v); });                           \
  }                                                                                                    \
  T __tsan_atomic##bits##_fetch_and(volatile T* a, T v, int order) {                                   \
    return Update(a, order, [v](T old) { return static_cast<T>(old & v); });                           \
  }                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* a, T* expected, T v, int order, int) {   \
    return CompareExchange(a, expected, v, order);                                                     \
  }                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* a, T* expected, T v, int order, int) { \
    return CompareExchange(a, expected, v, order);                                                     \
  }
MODEL_ATOMIC(8, unsigned char)
MODEL_ATOMIC(16, unsigned short)
MODEL_ATOMIC(32, unsigned int)
MODEL_ATOMIC(64, unsigned long)

void* ModelMemcpy(void* to, const void* from, size_t bytes) {
  Read(from, bytes);
  Write(to, bytes);
  return std::memcpy(to, from, bytes);
}

}  // extern "C"

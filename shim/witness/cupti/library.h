// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Functions of the program's libcupti: the one that it has loaded, else the one beside its libcudart, else by name.
//
// Thread-safety: one thread at a time; takes the loader's lock. Ownership: the library stays loaded. Failure: false.

#ifndef GPUMEM_SHIM_WITNESS_CUPTI_LIBRARY_H_
#define GPUMEM_SHIM_WITNESS_CUPTI_LIBRARY_H_

#include <cstddef>
#include <cstdint>

namespace gpumemshim::cupti {

using RequestBuffer = void (*)(uint8_t** buffer, size_t* size, size_t* max_records);
using CompleteBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid_size);
using OnCallback = void (*)(void* user, int domain, uint32_t id, const void* data);

inline constexpr int kSuccess = 0;
inline constexpr int kMultipleSubscribers = 39;

struct Library {
  int (*get_version)(uint32_t* version);
  int (*get_timestamp)(uint64_t* time_ns);
  int (*subscribe)(void** subscriber, OnCallback callback, void* user);
  int (*unsubscribe)(void* subscriber);
  int (*register_callbacks)(RequestBuffer request, CompleteBuffer complete);
  int (*enable)(uint32_t kind);
  int (*disable)(uint32_t kind);
  int (*flush_all)(uint32_t flags);
  int (*next_record)(uint8_t* buffer, size_t valid_size, void** record);
  int (*dropped_records)(void* context, uint32_t stream, size_t* dropped);
  char path[1024];
};

// False: there is none, or it lacks one of these.
bool LoadLibrary(Library* library);

// The major version at the end of ".../libcudart.so.12", 11 of "libcudart.so.11.0"; 0 where there is none.
int MajorOf(const char* path);

// The `index`-th place to look for libcupti of `major`, beside a libcudart at `cudart`; false: no more of them.
bool PlaceBeside(const char* cudart, int major, int index, char* out, size_t capacity);

}  // namespace gpumemshim::cupti

#endif  // GPUMEM_SHIM_WITNESS_CUPTI_LIBRARY_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What limits of memory (RLIMIT_AS, RLIMIT_DATA) leave, which is the program's: where it is little we take less, or
// nothing. Measured with everything on: 88 MiB of address space, of which 64 MiB are an arena that the C library
// reserves for the first thread that loads NVML; with what FitSettings leaves 9 MiB.
//
// Thread-safety: at set-up. Calls the kernel alone. Failure: with a limit and without /proc the room counts as none.
//
//   const uint64_t room_bytes = RoomInAddressSpace();
//   if (FitSettings(room_bytes, &settings) == Fit::kNone) ...

#ifndef GPUMEM_SHIM_CONTROL_LOADER_ADDRESS_SPACE_H_
#define GPUMEM_SHIM_CONTROL_LOADER_ADDRESS_SPACE_H_

#include <cstddef>
#include <cstdint>

#include "shim/settings/settings.h"

namespace gpumemshim::control {

inline constexpr uint64_t kAmpleRoomBytes = uint64_t{1} << 30;
inline constexpr uint64_t kLeastRoomBytes = uint64_t{128} << 20;
inline constexpr uint64_t kSmallRingBytes = uint64_t{1} << 20;

enum class Fit : uint8_t {
  kAll,      // as it was asked for
  kReduced,  // a small ring, no samples of the devices, no control socket
  kNone,     // nothing may be recorded
};

// UINT64_MAX where there is no limit.
uint64_t RoomInAddressSpace();

Fit FitSettings(uint64_t room_bytes, Settings* settings);

// Writes "gpumemshim: nothing is recorded: ...", newline included, and returns its size.
size_t NoRoomLine(uint64_t room_bytes, char* out, size_t capacity);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_LOADER_ADDRESS_SPACE_H_

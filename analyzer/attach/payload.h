// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The code that a stopped thread of a program goes on in: it makes a thread that loads libgpumemshim.so and calls
// gpumemshim_attach_v1, and returns to where it was, with all its registers. Pure function; payload_x86_64.S has the
// code.

#ifndef GPUMEM_ANALYZER_ATTACH_PAYLOAD_H_
#define GPUMEM_ANALYZER_ATTACH_PAYLOAD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "attach/process_map.h"

namespace gpumem {

// Functions of the program's C library, as addresses in the program.
struct CLibrary {
  uint64_t pthread_create = 0, pthread_self = 0, pthread_detach = 0, dlopen = 0, dlsym = 0;
};

struct Payload {
  uint64_t address = 0, entry = 0;  // where it is to lie, and where its code begins
  uint64_t resume_slot = 0;         // where the address stands at which the thread is to go on
  std::string bytes;
};

// To lie in `room`. `settings`: lines of NAME=VALUE. ResourceExhausted where it is too long for the room.
absl::StatusOr<Payload> MakePayload(const AddressRange& room, const CLibrary& functions, const std::string& library,
                                    const std::string& settings);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTACH_PAYLOAD_H_

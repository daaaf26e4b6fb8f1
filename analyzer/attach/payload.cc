// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/payload.h"

#include <cpuid.h>

#include <cstring>

#include "absl/strings/str_cat.h"

extern "C" const char gpumem_payload_start[], gpumem_payload_entry[], gpumem_payload_texts[];

namespace gpumem {
namespace {

// payload_x86_64.S, in its order.
struct Slots {
  uint64_t resume, create, self, detach, open, symbol, state_bytes, library, settings;
};

// Of the area that XSAVE writes with all that the system has switched on (CPUID 0xD: EBX), and some to align it.
uint64_t StateBytes() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(0xD, 0, &a, &b, &c, &d) == 0 || b < 576) return 0;
  return (uint64_t{b} + 127) & ~uint64_t{63};
}

}  // namespace

absl::StatusOr<Payload> MakePayload(const AddressRange& room, const CLibrary& functions, const std::string& library,
                                    const std::string& settings) {
  const auto code_bytes = static_cast<size_t>(gpumem_payload_texts - gpumem_payload_start);
  const size_t size = code_bytes + library.size() + 1 + settings.size() + 1;
  if (size > room.end - room.start) {
    return absl::ResourceExhaustedError(absl::StrCat("the paths and settings are too long: ", size, " bytes of ",
                                                     room.end - room.start, " that there is room for"));
  }
  Slots slots{};
  slots.create = functions.pthread_create;
  slots.self = functions.pthread_self;
  slots.detach = functions.pthread_detach;
  slots.open = functions.dlopen;
  slots.symbol = functions.dlsym;
  slots.state_bytes = StateBytes();
  slots.library = room.start + code_bytes;
  slots.settings = slots.library + library.size() + 1;
  if (slots.state_bytes == 0) return absl::UnimplementedError("this processor has no XSAVE");
  Payload payload;
  payload.address = payload.resume_slot = room.start;
  payload.entry = room.start + static_cast<uint64_t>(gpumem_payload_entry - gpumem_payload_start);
  payload.bytes.assign(gpumem_payload_start, code_bytes);
  std::memcpy(payload.bytes.data(), &slots, sizeof slots);
  payload.bytes.append(library.c_str(), library.size() + 1);
  payload.bytes.append(settings.c_str(), settings.size() + 1);
  return payload;
}

}  // namespace gpumem

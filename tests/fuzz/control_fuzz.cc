// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as a line that somebody writes to the control socket. It is read inside the user's program: nothing past
// what was given is read, and each line is a request or has an error.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "shim/control/server/requests.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Of the very size, so that a read past its end is seen.
  const std::unique_ptr<char[]> line(new char[size]);
  if (size != 0) std::memcpy(line.get(), data, size);
  const gpumemshim::control::Request request = gpumemshim::control::ParseRequest(line.get(), size);
  const bool is_request = request.command != gpumemshim::control::Command::kNone;
  if (is_request == (request.error != nullptr)) std::abort();
  const char* const end = line.get() + size;
  if (request.argument_size != 0 && (request.argument < line.get() || request.argument + request.argument_size > end)) {
    std::abort();
  }
  return 0;
}

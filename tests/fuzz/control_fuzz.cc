// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as a line that somebody writes to the control socket, and as an argument of a command line whose secrets
// are masked. The input's first byte chooses which. Both run inside the user's program: they must not read or write
// past what they are given.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "shim/control/mask_secrets.h"
#include "shim/control/requests.h"

namespace {

void ReadAsRequest(const uint8_t* data, size_t size) {
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
}

void ReadAsArgument(const std::string& argument, size_t capacity, bool follows_secret) {
  const std::unique_ptr<char[]> out(new char[capacity]);
  gpumemshim::control::MaskArgument(argument.c_str(), follows_secret, out.get(), capacity);
  if (std::memchr(out.get(), '\0', capacity) == nullptr) std::abort();
  gpumemshim::control::IsSecretName(argument.data(), argument.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  if ((data[0] & 1) == 0) {
    ReadAsRequest(data + 1, size - 1);
  } else {
    const std::string argument(reinterpret_cast<const char*>(data + 2), size - 2);
    ReadAsArgument(argument, size_t{1} + data[1], (data[0] & 2) != 0);
  }
  return 0;
}

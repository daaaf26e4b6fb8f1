// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as the arguments of a command line whose secrets are masked, one a NUL. The first byte of the input is the
// room for each. What is masked fits and ends. Masking it again, as the analyzer does with what the recorder masked,
// may mask more of an argument in which something was masked ("***-p:x" has a flag where "abc-p:x" had none), and soon
// changes nothing.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "shared/mask_secrets.h"

namespace {

using gpumem::format::MaskedCapacity;
using gpumem::format::SecretMasker;

std::vector<std::string> Split(const uint8_t* data, size_t size) {
  std::vector<std::string> arguments(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\0') {
      arguments.emplace_back();
    } else {
      arguments.back().push_back(static_cast<char>(data[i]));
    }
  }
  return arguments;
}

// With `room` bytes for each, or as many as it needs where that is 0.
std::vector<std::string> Mask(const std::vector<std::string>& arguments, size_t room) {
  SecretMasker masker;
  std::vector<std::string> masked;
  for (const std::string& argument : arguments) {
    const size_t capacity = room == 0 ? MaskedCapacity(argument.size()) : room;
    // Of the very sizes, so that a byte past them is seen.
    const std::unique_ptr<char[]> in(new char[argument.size()]), out(new char[capacity]);
    std::memcpy(in.get(), argument.data(), argument.size());
    const size_t size = masker.Mask(in.get(), argument.size(), out.get(), capacity);
    if (size >= capacity || std::strlen(out.get()) != size) std::abort();
    if (room == 0 && size + 1 == capacity) std::abort();  // cut
    masked.emplace_back(out.get(), size);
  }
  return masked;
}

bool HasMask(const std::string& text) { return text.find("***") != std::string::npos; }

constexpr int kMaxPasses = 8;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::vector<std::string> arguments = Split(data + 1, size - 1);
  const std::vector<std::string> masked = Mask(arguments, 0);
  std::vector<std::string> before = masked;
  for (int pass = 0;; ++pass) {
    const std::vector<std::string> again = Mask(before, 0);
    if (again == before) break;
    if (pass == kMaxPasses) std::abort();
    for (size_t i = 0; i < again.size(); ++i) {
      if (again[i] != before[i] && (!HasMask(before[i]) || !HasMask(again[i]))) std::abort();
    }
    before = again;
  }
  Mask(arguments, size_t{1} + data[0]);
  return 0;
}

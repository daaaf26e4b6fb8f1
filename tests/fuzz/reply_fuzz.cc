// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as what a recorded process replies on its control socket: read, and printed as `gpumemshim ctl` does.

#include <cstdint>
#include <string>

#include "live/ctl_answers.h"
#include "live/ctl_client.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto answer = gpumem::ControlAnswer::Parse({reinterpret_cast<const char*>(data), size});
  if (!answer.ok()) return 0;
  for (const char c : gpumem::StatusText(*answer)) {
    if (c == '\x1b' || c == '\0') __builtin_trap();  // nothing of it acts on a terminal
  }
  std::string text;
  gpumem::JsonWriter json(&text);
  json.BeginObject();
  gpumem::WriteJsonStatus(*answer, &json);
  json.EndObject();
  return 0;
}

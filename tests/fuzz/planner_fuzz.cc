// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as what the planner's helpers report: a planned process, the fork server, the driver of a replay. The
// input's first byte chooses which.

#include <cstdint>
#include <string>

#include "planner/allocator/replayer.h"
#include "planner/launch/fork_server.h"
#include "planner/launch/process_result.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    const auto result = gpumem::plan::ParseProcessResult(text);
    if (result.ok() && (result->pid < 0 || result->rank < 0)) __builtin_trap();
  } else if (data[0] % 3 == 1) {
    const auto message = gpumem::plan::ParseServerMessage(text);
    const bool starts = message.ok() && message->kind == gpumem::plan::ServerMessage::Kind::kStarted;
    if (starts && message->pid < 2) __builtin_trap();  // its group may be killed
  } else {
    gpumem::plan::ReplayedRun run;
    gpumem::plan::ParseReplayResult(text, &run).IgnoreError();
  }
  return 0;
}

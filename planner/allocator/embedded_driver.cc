// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/embedded_driver.h"

extern "C" {
extern const char gpumem_replay_driver_begin[], gpumem_replay_driver_end[];
}

namespace gpumem::plan {

absl::string_view EmbeddedReplayDriver() {
  return {gpumem_replay_driver_begin, static_cast<size_t>(gpumem_replay_driver_end - gpumem_replay_driver_begin)};
}

}  // namespace gpumem::plan

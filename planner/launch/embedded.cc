// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/embedded.h"

// embedded_files.S
#define GPUMEM_EMBEDDED(name) extern "C" const char gpumem_plan_##name##_begin[], gpumem_plan_##name##_end[]

GPUMEM_EMBEDDED(devices);
GPUMEM_EMBEDDED(injected_script);
GPUMEM_EMBEDDED(fork_server);
GPUMEM_EMBEDDED(fake_ranks);
GPUMEM_EMBEDDED(launchers);
GPUMEM_EMBEDDED(values);
GPUMEM_EMBEDDED(device_bytes);
GPUMEM_EMBEDDED(observed_operators);
GPUMEM_EMBEDDED(truths);
GPUMEM_EMBEDDED(draws);
GPUMEM_EMBEDDED(routing);
GPUMEM_EMBEDDED(decisions);
GPUMEM_EMBEDDED(compared);
GPUMEM_EMBEDDED(loop_bounds);
GPUMEM_EMBEDDED(changes);
GPUMEM_EMBEDDED(change);
GPUMEM_EMBEDDED(optimizer_changes);
GPUMEM_EMBEDDED(accumulation);
GPUMEM_EMBEDDED(checkpointing);
GPUMEM_EMBEDDED(chunked_loss);
GPUMEM_EMBEDDED(inference_changes);
GPUMEM_EMBEDDED(offload);

#undef GPUMEM_EMBEDDED

namespace gpumem::plan {
namespace {

absl::string_view Between(const char* begin, const char* end) { return {begin, static_cast<size_t>(end - begin)}; }

}  // namespace

#define GPUMEM_TEXT(name) Between(gpumem_plan_##name##_begin, gpumem_plan_##name##_end)

absl::string_view EmbeddedDevices() { return GPUMEM_TEXT(devices); }
absl::string_view EmbeddedForkServer() { return GPUMEM_TEXT(fork_server); }
absl::string_view EmbeddedFakeRanks() { return GPUMEM_TEXT(fake_ranks); }

std::vector<EmbeddedFile> EmbeddedInjectedFiles() {
  return {{"injected_script.py", GPUMEM_TEXT(injected_script)},
          {"launchers.py", GPUMEM_TEXT(launchers)},
          {"values.py", GPUMEM_TEXT(values)},
          {"device_bytes.py", GPUMEM_TEXT(device_bytes)},
          {"observed_operators.py", GPUMEM_TEXT(observed_operators)},
          {"truths.py", GPUMEM_TEXT(truths)},
          {"draws.py", GPUMEM_TEXT(draws)},
          {"routing.py", GPUMEM_TEXT(routing)},
          {"decisions.py", GPUMEM_TEXT(decisions)},
          {"compared.py", GPUMEM_TEXT(compared)},
          {"loop_bounds.py", GPUMEM_TEXT(loop_bounds)},
          {"changes.py", GPUMEM_TEXT(changes)},
          {"change.py", GPUMEM_TEXT(change)},
          {"optimizer_changes.py", GPUMEM_TEXT(optimizer_changes)},
          {"accumulation.py", GPUMEM_TEXT(accumulation)},
          {"checkpointing.py", GPUMEM_TEXT(checkpointing)},
          {"chunked_loss.py", GPUMEM_TEXT(chunked_loss)},
          {"inference_changes.py", GPUMEM_TEXT(inference_changes)},
          {"offload.py", GPUMEM_TEXT(offload)}};
}

#undef GPUMEM_TEXT

}  // namespace gpumem::plan

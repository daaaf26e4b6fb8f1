// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/embedded.h"

extern "C" {
extern const char gpumem_plan_devices_begin[], gpumem_plan_devices_end[];
extern const char gpumem_plan_injected_script_begin[], gpumem_plan_injected_script_end[];
extern const char gpumem_plan_fake_ranks_begin[], gpumem_plan_fake_ranks_end[];
extern const char gpumem_plan_fork_server_begin[], gpumem_plan_fork_server_end[];
extern const char gpumem_plan_values_begin[], gpumem_plan_values_end[];
extern const char gpumem_plan_changes_begin[], gpumem_plan_changes_end[];
extern const char gpumem_plan_chunked_loss_begin[], gpumem_plan_chunked_loss_end[];
}

namespace gpumem {

absl::string_view EmbeddedDevices() {
  return {gpumem_plan_devices_begin, static_cast<size_t>(gpumem_plan_devices_end - gpumem_plan_devices_begin)};
}

absl::string_view EmbeddedInjectedScript() {
  return {gpumem_plan_injected_script_begin,
          static_cast<size_t>(gpumem_plan_injected_script_end - gpumem_plan_injected_script_begin)};
}

absl::string_view EmbeddedFakeRanks() {
  return {gpumem_plan_fake_ranks_begin, static_cast<size_t>(gpumem_plan_fake_ranks_end - gpumem_plan_fake_ranks_begin)};
}

absl::string_view EmbeddedForkServer() {
  return {gpumem_plan_fork_server_begin,
          static_cast<size_t>(gpumem_plan_fork_server_end - gpumem_plan_fork_server_begin)};
}

absl::string_view EmbeddedValues() {
  return {gpumem_plan_values_begin, static_cast<size_t>(gpumem_plan_values_end - gpumem_plan_values_begin)};
}

absl::string_view EmbeddedChanges() {
  return {gpumem_plan_changes_begin, static_cast<size_t>(gpumem_plan_changes_end - gpumem_plan_changes_begin)};
}

absl::string_view EmbeddedChunkedLoss() {
  return {gpumem_plan_chunked_loss_begin,
          static_cast<size_t>(gpumem_plan_chunked_loss_end - gpumem_plan_chunked_loss_begin)};
}

}  // namespace gpumem

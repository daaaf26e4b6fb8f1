// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Files of this folder that the program carries in itself: gpumemshim is one file to copy.

#ifndef GPUMEM_PLANNER_LAUNCH_EMBEDDED_H_
#define GPUMEM_PLANNER_LAUNCH_EMBEDDED_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem::plan {

absl::string_view EmbeddedDevices();     // devices.json
absl::string_view EmbeddedForkServer();  // fork_server.py
absl::string_view EmbeddedFakeRanks();   // fake_ranks.py

struct EmbeddedFile {
  absl::string_view name, text;
};
// injected_script.py, and what it loads from its folder.
std::vector<EmbeddedFile> EmbeddedInjectedFiles();

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_EMBEDDED_H_

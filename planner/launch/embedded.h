// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Files of this folder that the program carries in itself: gpumem is one file to copy.

#ifndef GPUMEM_PLANNER_LAUNCH_EMBEDDED_H_
#define GPUMEM_PLANNER_LAUNCH_EMBEDDED_H_

#include "absl/strings/string_view.h"

namespace gpumem {

absl::string_view EmbeddedDevices();         // devices.json
absl::string_view EmbeddedInjectedScript();  // injected_script.py
absl::string_view EmbeddedForkServer();      // fork_server.py
absl::string_view EmbeddedFakeRanks();       // fake_ranks.py
absl::string_view EmbeddedValues();          // values.py
absl::string_view EmbeddedChanges();         // changes.py
absl::string_view EmbeddedChunkedLoss();     // chunked_loss.py

}  // namespace gpumem

#endif  // GPUMEM_PLANNER_LAUNCH_EMBEDDED_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// replay_driver.py, which the program carries in itself: gpumemshim is one file to copy.

#ifndef GPUMEM_PLANNER_ALLOCATOR_EMBEDDED_DRIVER_H_
#define GPUMEM_PLANNER_ALLOCATOR_EMBEDDED_DRIVER_H_

#include "absl/strings/string_view.h"

namespace gpumem::plan {

absl::string_view EmbeddedReplayDriver();

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_EMBEDDED_DRIVER_H_

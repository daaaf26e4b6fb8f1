// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Reads how many processes a command starts where it is a launcher's: torchrun, accelerate launch, deepspeed.
//
//   ReadLaunchLine({"torchrun", "--nnodes", "4", "--nproc-per-node=8", "train.py"})
//   // launcher "torchrun", nodes 4, per_node 8
//
// What follows the program's name is the program's own. Thread-safety: none needed; reads a configuration file of
// accelerate where the command names one, or its default. Failure: InvalidArgument where the number cannot be one.

#ifndef GPUMEM_PLANNER_LAUNCH_LAUNCH_LINE_H_
#define GPUMEM_PLANNER_LAUNCH_LAUNCH_LINE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpumem::plan {

struct LaunchLine {
  std::string launcher;         // "torchrun", "accelerate launch"; "" = the command is no launcher's
  std::optional<int> per_node;  // ranks on one machine; none: the launcher asks how many GPUs there are, or takes one
  int nodes = 1;                // machines
  int node_rank = 0;            // which of them this command is for
};

absl::StatusOr<LaunchLine> ReadLaunchLine(const std::vector<std::string>& command);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_LAUNCH_LINE_H_

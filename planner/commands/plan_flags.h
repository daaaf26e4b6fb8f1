// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The flags of the commands that run programs on a GPU that is not here: which GPU, how far, what data are.
//
//   PlanFlags flags;
//   flags.AddFlags(flags);
//   GPUMEM_RETURN_IF_ERROR(flags.Fill(&request));
//
// Not thread-safe. Failure: InvalidArgument with what a flag should look like.

#ifndef GPUMEM_PLANNER_COMMANDS_PLAN_FLAGS_H_
#define GPUMEM_PLANNER_COMMANDS_PLAN_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "commands/flags.h"
#include "planner/launch/ranks.h"
#include "planner/launch/simulated_run.h"

namespace gpumem {

struct PlanFlags {
  std::string device, memory, capability;  // "" = not given
  RanksWanted ranks;
  std::string steps = "stable";
  double timeout = 300;  // seconds
  std::string policy;    // "" = not given: upper
  std::vector<std::string> pins;
  std::string workspaces = "measured";

  void AddFlags(Flags* flags);

  // Sets all of `request` that these say; its command is there already, and may be wrapped in torchrun.
  absl::Status Fill(RunRequest* request) const;

  bool policy_given() const { return !policy.empty(); }
};

// The recorder and the simulated CUDA beside this program.
absl::StatusOr<SimulationTools> FindSimulation();

}  // namespace gpumem

#endif  // GPUMEM_PLANNER_COMMANDS_PLAN_FLAGS_H_

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

#ifndef GPUMEM_PLANNER_CLI_PLAN_FLAGS_H_
#define GPUMEM_PLANNER_CLI_PLAN_FLAGS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/flags.h"
#include "planner/launch/ranks.h"
#include "planner/launch/simulated_run.h"

namespace gpumem::plan {

struct PlanFlags {
  static constexpr double kTimeout = 600;

  std::string device, memory, capability;  // "" = not given
  RanksWanted ranks;
  std::string steps = "stable";
  double timeout = kTimeout;          // seconds
  std::vector<std::string> policies;  // none = upper
  std::string routing;
  std::vector<std::string> pins;
  std::string workspaces = "measured", values = "computed";

  void AddFlags(Flags* flags);

  // Sets all of `request` that these say; its command is there already, and may be wrapped in torchrun.
  absl::Status Fill(RunRequest* request) const;

  // Whether what data find is stated for all lines.
  bool policy_given() const {
    return std::any_of(policies.begin(), policies.end(),
                       [](const std::string& policy) { return policy.find(':') == std::string::npos; });
  }
  // Texts and lines that a run must meet: a pin that matches nothing is a mistake.
  std::vector<std::string> PinnedTexts() const;
};

// "5%" as 0.05; InvalidArgument where it is not a share.
absl::StatusOr<double> ParseMargin(absl::string_view text);

// The recorder and the simulated CUDA beside this program.
absl::StatusOr<SimulationTools> FindSimulation();

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_CLI_PLAN_FLAGS_H_

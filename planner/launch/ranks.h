// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Programs of many ranks: all of them here, started by torchrun, or one process that simulates one of them
// (fake_ranks.py).
//
//   RanksWanted wanted;
//   wanted.world_size = 8;                // one process, as rank 0 of 8
//   absl::Status status = PlaceRanks(wanted, &run);
//
// Failure: InvalidArgument with what to give instead.

#ifndef GPUMEM_PLANNER_LAUNCH_RANKS_H_
#define GPUMEM_PLANNER_LAUNCH_RANKS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "planner/launch/simulated_run.h"

namespace gpumem::plan {

// What was asked for; an absent value follows from the others.
struct RanksWanted {
  std::optional<int> rank, world_size, per_node, devices;
};

// Sets the ranks and devices of `run`, and its command where torchrun is to start it. A command that is a launcher's
// (launch_line.h) has as many devices as it starts ranks on a machine; where it is for several machines, one of their
// ranks is simulated.
absl::Status PlaceRanks(const RanksWanted& wanted, RunRequest* run);

// Where fake_ranks.py lies as sitecustomize.py: beside injected_script.py.
std::string FakeRanksFolder(const std::string& injected_script);

// What lets fake_ranks.py run in a program of several ranks; where `run` simulates one of them, also what torchrun
// would tell it. Empty for a program of one. `folder` is FakeRanksFolder's.
std::vector<std::pair<std::string, std::string>> FakeRanksEnvironment(const RunRequest& run, const std::string& folder);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_LAUNCH_RANKS_H_

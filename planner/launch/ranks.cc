// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/ranks.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/launch/launch_line.h"

namespace gpumem::plan {
namespace {

constexpr int kMaxRanks = 1 << 20;
constexpr int kUsualPerNode = 8;
constexpr int kMaxDevices = 64;

// `python -u train.py` becomes `python -u -m torch.distributed.run ... train.py`: interpreter options that stand alone
// stay where they are.
absl::Status StartByTorchrun(int per_node, const LaunchLine& line, std::vector<std::string>* command) {
  if (!line.launcher.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nproc-per-node starts torchrun itself, and ", line.launcher,
        " is in the command already. Like this: gpumemshim plan --nproc-per-node ", per_node, " -- python train.py"));
  }
  if (!absl::StrContains(std::filesystem::path(command->front()).filename().string(), "python")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--nproc-per-node needs the interpreter in the command: gpumemshim plan --nproc-per-node ",
                     per_node, " -- python train.py"));
  }
  auto at = command->begin() + 1;
  while (at != command->end() && absl::StartsWith(*at, "-") && *at != "-m" && *at != "-c") ++at;
  const std::vector<std::string> words = {"-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                          absl::StrCat(per_node)};
  command->insert(at, words.begin(), words.end());
  return absl::OkStatus();
}

// One process as rank of `ranks`, of which `per_node` share a machine.
absl::Status SimulateRank(int rank, int ranks, int per_node, RunRequest* run) {
  if (ranks < 1 || ranks > kMaxRanks) return absl::InvalidArgumentError("--world-size is a number from 1");
  if (rank < 0 || rank >= ranks)
    return absl::InvalidArgumentError(absl::StrCat("--rank is a number from 0 to ", ranks - 1, " here"));
  run->rank = rank;
  run->world_size = ranks;
  run->local_world_size = per_node;
  return absl::OkStatus();
}

absl::Status SimulateWanted(const RanksWanted& wanted, const LaunchLine& line, RunRequest* run) {
  if (!wanted.world_size.has_value())
    return absl::InvalidArgumentError("--rank is one of how many? Like this: --rank 0 --world-size 8");
  const int ranks = *wanted.world_size, rank = wanted.rank.value_or(0);
  GPUMEM_RETURN_IF_ERROR(SimulateRank(rank, ranks, wanted.per_node.value_or(std::min(ranks, kUsualPerNode)), run));
  if (line.launcher.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("one process is to simulate a rank, but ", line.launcher,
                                                 " would start them all. Like this: gpumemshim plan --rank ", rank,
                                                 " --world-size ", ranks, " -- python train.py"));
}

// A line for several machines: they are not here, so one rank is simulated, the first on the machine that is meant.
absl::Status SimulateFromLine(const RanksWanted& wanted, const LaunchLine& line, RunRequest* run) {
  const int per_node = line.per_node.value_or(wanted.devices.value_or(kUsualPerNode));
  const int64_t ranks = int64_t{per_node} * line.nodes;
  if (ranks > kMaxRanks) return absl::InvalidArgumentError(absl::StrCat(ranks, " ranks are more than can be"));
  const int rank = wanted.rank.value_or(line.node_rank * per_node);
  GPUMEM_RETURN_IF_ERROR(SimulateRank(rank, static_cast<int>(ranks), per_node, run));
  run->from_launcher = line.launcher;
  return absl::OkStatus();
}

}  // namespace

absl::Status PlaceRanks(const RanksWanted& wanted, RunRequest* run) {
  if (wanted.per_node.has_value() && (*wanted.per_node < 1 || *wanted.per_node > kMaxDevices))
    return absl::InvalidArgumentError("--nproc-per-node is a number from 1 to 64");
  if (wanted.devices.has_value() && (*wanted.devices < 1 || *wanted.devices > kMaxDevices))
    return absl::InvalidArgumentError("--device-count is a number from 1 to 64");
  GPUMEM_ASSIGN_OR_RETURN(const LaunchLine line, ReadLaunchLine(run->command));
  if (line.nodes > 1 && !wanted.world_size.has_value() && !wanted.per_node.has_value()) {
    GPUMEM_RETURN_IF_ERROR(SimulateFromLine(wanted, line, run));
  } else if (wanted.rank.has_value() || wanted.world_size.has_value()) {
    GPUMEM_RETURN_IF_ERROR(SimulateWanted(wanted, line, run));
  } else if (wanted.per_node.has_value()) {
    GPUMEM_RETURN_IF_ERROR(StartByTorchrun(*wanted.per_node, line, &run->command));
  }
  const int started = wanted.per_node.value_or(line.per_node.value_or(1));
  const int usual = run->world_size > 0 ? run->local_world_size : started;
  run->device_count = wanted.devices.value_or(usual);
  if (run->device_count >= 1 && run->device_count <= kMaxDevices) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(line.launcher, " is to start ", run->device_count, " processes on a machine; 1 to 64 can be"));
}

std::string FakeRanksFolder(const std::string& injected_script) {
  return (std::filesystem::path(injected_script).parent_path() / "fake_ranks").string();
}

std::vector<std::pair<std::string, std::string>> FakeRanksEnvironment(const RunRequest& run,
                                                                      const std::string& folder) {
  const char* const before = std::getenv("PYTHONPATH");
  const std::string path = before == nullptr || *before == '\0' ? folder : absl::StrCat(folder, ":", before);
  const bool simulates_rank = run.world_size > 0;
  if (run.on_gpu || (!simulates_rank && run.device_count < 2)) return {};  // ranks have a GPU each
  if (!simulates_rank) return {{"PYTHONPATH", path}};
  const int nodes = (run.world_size + run.local_world_size - 1) / run.local_world_size;
  return {
      {"PYTHONPATH", path},
      {"GPUMEMSHIM_PLAN_FAKE_RANKS", "1"},
      {"SIMCUDA_NCCL_ALONE", "1"},
      {"RANK", absl::StrCat(run.rank)},
      {"WORLD_SIZE", absl::StrCat(run.world_size)},
      {"LOCAL_RANK", absl::StrCat(run.rank % run.local_world_size)},
      {"LOCAL_WORLD_SIZE", absl::StrCat(std::min(run.local_world_size, run.world_size))},
      {"GROUP_RANK", absl::StrCat(run.rank / run.local_world_size)},
      {"GROUP_WORLD_SIZE", absl::StrCat(nodes)},
      {"ROLE_RANK", absl::StrCat(run.rank)},
      {"ROLE_WORLD_SIZE", absl::StrCat(run.world_size)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RUN_ID", "none"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
  };
}

}  // namespace gpumem::plan

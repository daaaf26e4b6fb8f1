// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/ranks.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpumem::plan {
namespace {

constexpr int kMaxRanks = 1 << 20;
constexpr int kUsualPerNode = 8;
constexpr int kMaxDevices = 64;

// The word that makes the command one of many processes itself: "torchrun".
std::string LauncherIn(const std::vector<std::string>& command) {
  for (size_t i = 0; i < command.size(); ++i) {
    std::string name = std::filesystem::path(command[i]).filename().string();
    if (i == 0 && (name == "torchrun" || name == "accelerate" || name == "deepspeed" || name == "mpirun")) return name;
    if (i > 0 && command[i - 1] == "-m" && absl::StartsWith(name, "torch.distributed.")) return name;
  }
  return "";
}

// `python -u train.py` becomes `python -u -m torch.distributed.run ... train.py`: interpreter options that stand alone
// stay where they are.
absl::Status StartByTorchrun(int per_node, std::vector<std::string>* command) {
  if (const std::string launcher = LauncherIn(*command); !launcher.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nproc-per-node starts torchrun itself, and ", launcher,
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

absl::Status SimulateRank(const RanksWanted& wanted, RunRequest* run) {
  if (!wanted.world_size.has_value())
    return absl::InvalidArgumentError("--rank is one of how many? Like this: --rank 0 --world-size 8");
  const int ranks = *wanted.world_size, rank = wanted.rank.value_or(0);
  const int per_node = wanted.per_node.value_or(std::min(ranks, kUsualPerNode));
  if (ranks < 1 || ranks > kMaxRanks) return absl::InvalidArgumentError("--world-size is a number from 1");
  if (rank < 0 || rank >= ranks)
    return absl::InvalidArgumentError(absl::StrCat("--rank is a number from 0 to ", ranks - 1, " here"));
  if (const std::string launcher = LauncherIn(run->command); !launcher.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("one process is to simulate a rank, but ", launcher,
                                                   " would start them all. Like this: gpumemshim plan --rank ", rank,
                                                   " --world-size ", ranks, " -- python train.py"));
  }
  run->rank = rank;
  run->world_size = ranks;
  run->local_world_size = per_node;
  return absl::OkStatus();
}

}  // namespace

absl::Status PlaceRanks(const RanksWanted& wanted, RunRequest* run) {
  if (wanted.per_node.has_value() && (*wanted.per_node < 1 || *wanted.per_node > kMaxDevices))
    return absl::InvalidArgumentError("--nproc-per-node is a number from 1 to 64");
  if (wanted.devices.has_value() && (*wanted.devices < 1 || *wanted.devices > kMaxDevices))
    return absl::InvalidArgumentError("--device-count is a number from 1 to 64");
  if (wanted.rank.has_value() || wanted.world_size.has_value()) {
    if (absl::Status status = SimulateRank(wanted, run); !status.ok()) return status;
  } else if (wanted.per_node.has_value()) {
    if (absl::Status status = StartByTorchrun(*wanted.per_node, &run->command); !status.ok()) return status;
  }
  const int usual = run->world_size > 0 ? run->local_world_size : wanted.per_node.value_or(1);
  run->device_count = wanted.devices.value_or(usual);
  return absl::OkStatus();
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

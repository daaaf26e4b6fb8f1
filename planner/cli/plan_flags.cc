// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/cli/plan_flags.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "attach/preload.h"
#include "base/format.h"
#include "base/status_macros.h"

namespace gpumem::plan {
namespace {

constexpr char kDefaultDevice[] = "H100";
// Beyond so many reads of device memory a program that was to make a few steps waits for a value that never comes.
constexpr uint64_t kMaxReads = 200'000;

absl::StatusOr<std::string> PinsJson(const std::vector<std::string>& pins) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& pin : pins) {
    const size_t equals = pin.rfind('=');
    const std::string text = pin.substr(0, equals), value = equals == std::string::npos ? "" : pin.substr(equals + 1);
    nlohmann::json parsed = nlohmann::json::parse(absl::AsciiStrToLower(value), nullptr, false);
    if (text.empty() || parsed.is_discarded() || parsed.is_structured()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--pin '", pin,
                       "' is not a pin. Like this: --pin 'train.py:57=True', or --pin 'lengths.max()=512' for every "
                       "line that has this text"));
    }
    list.push_back({text, parsed});
  }
  return list.dump();
}

// "train.py:57=0.3" or "train.py:57=expect=0.3", as JSON.
absl::StatusOr<std::string> SharesJson(const std::vector<std::string>& policies) {
  nlohmann::json shares = nlohmann::json::array();
  for (const std::string& policy : policies) {
    const size_t equals = policy.find('=');
    if (equals == std::string::npos || policy.find(':') >= equals) continue;  // it is for all
    absl::string_view text = absl::string_view(policy).substr(equals + 1);
    absl::ConsumePrefix(&text, "expect=");
    double share = -1;
    if (text == "upper") share = 1;
    if (text == "zero") share = 0;
    if (share < 0 && (!absl::SimpleAtod(text, &share) || !(share >= 0 && share <= 1))) {
      return absl::InvalidArgumentError(
          absl::StrCat("--data-dependent ", policy, " is not a share of a line. Like this: train.py:57=expect=0.3"));
    }
    shares.push_back({policy.substr(0, equals), share});
  }
  return shares.dump();
}

// "upper", "zero", "expect=0.5", as SIMCUDA_DATA_DEPENDENT has it; the last one that is for all lines.
absl::StatusOr<std::string> ParsePolicy(absl::string_view text) {
  if (text == "upper" || text == "zero") return std::string(text);
  double share = -1;
  if (absl::ConsumePrefix(&text, "expect=") && absl::SimpleAtod(text, &share) && share >= 0 && share <= 1)
    return std::string(text);
  return absl::InvalidArgumentError(
      "--data-dependent is upper, zero or expect=SHARE, as in expect=0.5; FILE.py:LINE=expect=SHARE for one line");
}

absl::Status FillDevice(const PlanFlags& flags, RunRequest* request) {
  GPUMEM_ASSIGN_OR_RETURN(request->device, FindDevice(flags.device.empty() ? kDefaultDevice : flags.device));
  if (!flags.memory.empty()) {
    const std::optional<uint64_t> bytes = ParseBytes(flags.memory);
    if (!bytes.has_value() || *bytes < (uint64_t{1} << 30)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--memory ", flags.memory, " is not a size of a GPU. Like this: 40GiB"));
    }
    request->device.memory_mib = *bytes >> 20;
    request->device.source = "--memory";
    if (flags.device.empty())
      request->device.name = request->device.full_name = absl::StrCat("a GPU of ", flags.memory);
  }
  if (!flags.capability.empty()) {
    GPUMEM_ASSIGN_OR_RETURN(const int capability, ParseCapability(flags.capability));
    if (capability != request->device.capability) request->device.shared_memory = 0;  // what the capability has
    request->device.capability = capability;
  }
  return absl::OkStatus();
}

}  // namespace

void PlanFlags::AddFlags(Flags* flags) {
  flags->Add("--device", &device, "which GPU (H100); gpumemshim plan --list-devices names all").Value("NAME");
  flags->Add("--memory", &memory, "its memory, as a program sees it (40GiB)").Value("SIZE");
  flags->Add("--capability", &capability, "its compute capability (8.6)").Value("X.Y");
  flags->Add("--device-count", &ranks.devices, "how many of them (1, or as many as there are ranks)").Value("N");
  flags->Add("--nproc-per-node", &ranks.per_node, "start so many ranks, by torchrun").Value("N");
  flags->Add("--rank", &ranks.rank, "one process simulates this rank of --world-size (0)").Value("R");
  flags->Add("--world-size", &ranks.world_size, "of how many ranks it is one").Value("N");
  flags->Add("--steps", &steps, "optimizer steps to run: a number, all, or stable (until the peak did not grow for 2)")
      .Value("N");
  flags->Add("--timeout", &timeout, "seconds for all runs of a plan together, or for each of --vary's (600)")
      .Value("S");
  flags
      ->Add("--data-dependent", &policies,
            "what nonzero, masks and unique find where that is not known: upper (everything), zero, expect=0.5, or "
            "FILE.py:LINE=expect=0.5")
      .Value("WHAT");
  flags
      ->Add("--routing", &routing,
            "which experts a router chooses whose scores nobody computed: balanced, worst (all the same), or a seed")
      .Value("HOW");
  flags->Add("--values", &values, "values that decide: computed, or none (0)").Value("WHICH");
  flags
      ->Add("--workspaces", &workspaces,
            "of cuDNN and the like: measured (else 0), bound (else the most that they can be), none (0)")
      .Value("WHICH");
  flags->Add("--pin", &pins, "what reading a tensor gives on a line: FILE.py:LINE=VALUE or TEXT=VALUE").Value("PIN");
}

std::vector<std::string> PlanFlags::PinnedTexts() const {
  std::vector<std::string> texts;
  for (const std::string& pin : pins) texts.push_back(pin.substr(0, pin.rfind('=')));
  for (const std::string& policy : policies) {
    if (policy.find(':') < policy.find('=')) texts.push_back(policy.substr(0, policy.find('=')));
  }
  if (!routing.empty()) texts.push_back("--routing");
  return texts;
}

absl::Status PlanFlags::Fill(RunRequest* request) const {
  GPUMEM_RETURN_IF_ERROR(FillDevice(*this, request));
  GPUMEM_RETURN_IF_ERROR(PlaceRanks(ranks, request));
  uint64_t number = 0;
  if (steps != "stable" && steps != "all" && (!absl::SimpleAtoi(steps, &number) || number == 0))
    return absl::InvalidArgumentError("--steps is a number from 1, all or stable");
  request->steps = steps;
  if (!(timeout >= 1 && timeout <= 1e6)) return absl::InvalidArgumentError("--timeout is a number of seconds");
  request->timeout_s = timeout;
  if (steps != "all") request->most_reads = kMaxReads;
  std::string policy = "upper";
  for (const std::string& each : policies) {
    if (each.find(':') == std::string::npos) policy = each;
  }
  GPUMEM_ASSIGN_OR_RETURN(request->data_dependent, ParsePolicy(policy));
  GPUMEM_ASSIGN_OR_RETURN(request->shares, SharesJson(policies));
  uint32_t seed = 0;
  if (!routing.empty() && routing != "balanced" && routing != "worst" && !absl::SimpleAtoi(routing, &seed))
    return absl::InvalidArgumentError("--routing is balanced, worst or a number that random choices start from");
  request->routing = routing;
  if (!routing.empty() && values == "none")
    return absl::InvalidArgumentError("--routing needs values that are computed: leave --values none out");
  if (values != "computed" && values != "none") return absl::InvalidArgumentError("--values is computed or none");
  request->values = values == "none" ? RunRequest::Values::kNone : RunRequest::Values::kComputed;
  if (workspaces != "measured" && workspaces != "bound" && workspaces != "none")
    return absl::InvalidArgumentError("--workspaces is measured, bound or none");
  request->workspaces = workspaces;
  GPUMEM_ASSIGN_OR_RETURN(request->pins, PinsJson(pins));
  return absl::OkStatus();
}

absl::StatusOr<double> ParseMargin(absl::string_view text) {
  double percent = -1;
  if (absl::ConsumeSuffix(&text, "%") && absl::SimpleAtod(text, &percent) && percent >= 0 && percent < 100)
    return percent / 100;
  return absl::InvalidArgumentError("--margin is a share of the device, such as 5%");
}

absl::StatusOr<SimulationTools> FindSimulation() {
  GPUMEM_ASSIGN_OR_RETURN(const std::string recorder, FindShimLibrary());
  std::error_code error;
  return FindSimulationTools(std::filesystem::read_symlink("/proc/self/exe", error).string(), recorder);
}

}  // namespace gpumem::plan

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/launch_line.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxNumber = 1 << 20;
constexpr size_t kMaxConfigLines = 10'000;

enum class Kind : uint8_t { kNone, kTorchrun, kAccelerate, kDeepSpeed, kOther };

struct Found {
  Kind kind = Kind::kNone;
  std::string name;
  size_t rest = 0;  // the first word after it
};

std::string BaseName(const std::string& word) { return fs::path(word).filename().string(); }

// "env NAME=value", "uv run": what may stand before a launcher.
size_t SkipPrefix(const std::vector<std::string>& command) {
  size_t i = 0;
  if (i < command.size() && BaseName(command[i]) == "env") {
    for (++i; i < command.size() && absl::StrContains(command[i], '='); ++i) {
    }
  }
  if (i + 1 < command.size() && BaseName(command[i]) == "uv" && command[i + 1] == "run") i += 2;
  return i;
}

Found FindModule(const std::string& module, size_t rest) {
  if (module == "torch.distributed.run" || module == "torch.distributed.launch") return {Kind::kTorchrun, module, rest};
  if (module == "accelerate.commands.launch") return {Kind::kAccelerate, module, rest};
  if (module == "deepspeed.launcher.runner" || module == "deepspeed") return {Kind::kDeepSpeed, module, rest};
  return {};
}

Found FindLauncher(const std::vector<std::string>& command) {
  const size_t i = SkipPrefix(command);
  if (i >= command.size()) return {};
  const std::string name = BaseName(command[i]);
  if (name == "torchrun") return {Kind::kTorchrun, name, i + 1};
  if (name == "accelerate-launch") return {Kind::kAccelerate, name, i + 1};
  if (name == "accelerate" && i + 1 < command.size() && command[i + 1] == "launch")
    return {Kind::kAccelerate, "accelerate launch", i + 2};
  if (name == "deepspeed" || name == "ds") return {Kind::kDeepSpeed, name, i + 1};
  if (name == "mpirun" || name == "mpiexec" || name == "srun") return {Kind::kOther, name, i + 1};
  if (!absl::StartsWith(name, "python")) return {};
  for (size_t at = i + 1; at < command.size() && absl::StartsWith(command[at], "-"); ++at) {
    if (command[at] == "-m" && at + 1 < command.size()) return FindModule(command[at + 1], at + 2);
    if (command[at] == "-W" || command[at] == "-X") ++at;
  }
  return {};
}

// Options of a launcher by their long names with hyphens, up to the program that it starts.
using Options = std::map<std::string, std::string>;

bool IsProgram(const std::string& word) { return absl::EndsWith(word, ".py") || absl::EndsWith(word, ".sh"); }

Options ReadOptions(const std::vector<std::string>& command, size_t at) {
  static const auto* const kAlone = new std::vector<std::string>{"standalone",
                                                                 "no-python",
                                                                 "run-path",
                                                                 "multi-gpu",
                                                                 "cpu",
                                                                 "use-fsdp",
                                                                 "use-deepspeed",
                                                                 "use-megatron-lm",
                                                                 "debug",
                                                                 "quiet",
                                                                 "no-ssh",
                                                                 "force-multi",
                                                                 "save-pid",
                                                                 "tpu",
                                                                 "dynamo-use-fullgraph",
                                                                 "bind-cores-to-rank",
                                                                 "no-local-rank"};
  Options options;
  for (; at < command.size(); ++at) {
    const std::string& word = command[at];
    if (!absl::StartsWith(word, "-") || word == "--" || word == "-m" || word == "--module") break;
    std::vector<std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    absl::string_view bare = parts[0];
    while (absl::ConsumePrefix(&bare, "-")) {
    }
    const std::string name = absl::StrReplaceAll(bare, {{"_", "-"}});
    const bool takes_next = parts.size() == 1 && !absl::c_linear_search(*kAlone, name) && at + 1 < command.size() &&
                            !absl::StartsWith(command[at + 1], "-") && !IsProgram(command[at + 1]);
    options[name] = parts.size() == 2 ? parts[1] : takes_next ? command[++at] : "";
  }
  return options;
}

const std::string* Find(const Options& options, const std::string& name) {
  const auto found = options.find(name);
  return found == options.end() ? nullptr : &found->second;
}

// None where the option is not there, or says a word ("gpu", "auto") that the launcher resolves itself.
absl::StatusOr<std::optional<int>> NumberOf(const Options& options, const std::string& name) {
  const std::string* const text = Find(options, name);
  if (text == nullptr || text->empty() || !absl::ascii_isdigit(static_cast<unsigned char>(text->front())))
    return std::nullopt;
  const absl::string_view last = absl::string_view(*text).substr(text->rfind(':') + 1);  // --nnodes 1:4
  int number = 0;
  if (!absl::SimpleAtoi(last, &number) || number < 0 || number > kMaxNumber)
    return absl::InvalidArgumentError(absl::StrCat("--", name, " ", *text, " is not a number of processes"));
  return number;
}

// The lines `name: value` that are not indented, of accelerate's configuration.
Options ReadConfig(const std::string& path) {
  Options config;
  std::ifstream file(path);
  std::string line;
  for (size_t count = 0; count < kMaxConfigLines && std::getline(file, line); ++count) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon == 0 || absl::ascii_isspace(static_cast<unsigned char>(line[0]))) continue;
    const std::string name = absl::StrReplaceAll(line.substr(0, colon), {{"\"", ""}, {"_", "-"}});
    absl::string_view value = absl::string_view(line).substr(colon + 1);
    value = absl::StripAsciiWhitespace(value.substr(0, value.find(" #")));
    for (const char* const quote : {"'", "\""}) {
      if (absl::ConsumePrefix(&value, quote)) absl::ConsumeSuffix(&value, quote);
    }
    config[name] = std::string(value);
  }
  return config;
}

// Where accelerate looks if no file is named.
std::string DefaultConfig() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string home = variable("HF_HOME");
  if (home.empty() && !variable("XDG_CACHE_HOME").empty()) home = variable("XDG_CACHE_HOME") + "/huggingface";
  if (home.empty()) home = variable("HOME") + "/.cache/huggingface";
  return home + "/accelerate/default_config.yaml";
}

absl::Status ReadTorchrun(const Options& options, LaunchLine* line) {
  GPUMEM_ASSIGN_OR_RETURN(line->per_node, NumberOf(options, "nproc-per-node"));
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<int> nodes, NumberOf(options, "nnodes"));
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<int> rank, NumberOf(options, "node-rank"));
  const std::string* const per_node = Find(options, "nproc-per-node");
  if (per_node == nullptr) line->per_node = 1;
  line->nodes = nodes.value_or(1);
  line->node_rank = rank.value_or(0);
  return absl::OkStatus();
}

// All processes of all machines are counted, in the file and on the command line, which wins.
absl::Status ReadAccelerate(const Options& options, LaunchLine* line) {
  const std::string* const file = Find(options, "config-file");
  Options all = ReadConfig(file == nullptr ? DefaultConfig() : *file);
  for (const auto& [name, value] : options) all[name] = value;
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<int> processes, NumberOf(all, "num-processes"));
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<int> machines, NumberOf(all, "num-machines"));
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<int> rank, NumberOf(all, "machine-rank"));
  line->nodes = std::max(machines.value_or(1), 1);
  line->node_rank = rank.value_or(0);
  if (processes.has_value()) line->per_node = *processes / line->nodes;
  return absl::OkStatus();
}

// "localhost:0,1,2": of one machine; "worker-0@worker-1:0,2".
void ReadIncluded(const std::string& text, LaunchLine* line) {
  const std::vector<std::string> machines = absl::StrSplit(text, '@', absl::SkipEmpty());
  line->nodes = std::max<int>(static_cast<int>(machines.size()), 1);
  for (const std::string& machine : machines) {
    const size_t colon = machine.find(':');
    if (colon == std::string::npos) continue;
    const std::vector<std::string> slots = absl::StrSplit(machine.substr(colon + 1), ',', absl::SkipEmpty());
    line->per_node = std::max(line->per_node.value_or(0), static_cast<int>(slots.size()));
  }
}

absl::Status ReadDeepSpeed(const Options& options, LaunchLine* line) {
  const std::string* const included = Find(options, "include");
  if (included != nullptr) ReadIncluded(*included, line);
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<int> gpus, NumberOf(options, "num-gpus"));
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<int> nodes, NumberOf(options, "num-nodes"));
  GPUMEM_ASSIGN_OR_RETURN(const std::optional<int> rank, NumberOf(options, "node-rank"));
  if (gpus.has_value()) line->per_node = gpus;
  if (nodes.has_value()) line->nodes = *nodes;
  line->node_rank = rank.value_or(0);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LaunchLine> ReadLaunchLine(const std::vector<std::string>& command) {
  const Found found = FindLauncher(command);
  LaunchLine line;
  line.launcher = found.name;
  if (found.kind == Kind::kNone || found.kind == Kind::kOther) return line;
  const Options options = ReadOptions(command, found.rest);
  if (found.kind == Kind::kTorchrun) GPUMEM_RETURN_IF_ERROR(ReadTorchrun(options, &line));
  if (found.kind == Kind::kAccelerate) GPUMEM_RETURN_IF_ERROR(ReadAccelerate(options, &line));
  if (found.kind == Kind::kDeepSpeed) GPUMEM_RETURN_IF_ERROR(ReadDeepSpeed(options, &line));
  if (line.nodes < 1) line.nodes = 1;
  return line;
}

}  // namespace gpumem::plan

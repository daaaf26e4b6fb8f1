// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// gpumemshim replay: the recorded requests in PyTorch's own allocator under other settings; also as the WhatIfAsker of
// other commands.

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "attach/child.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "planner/allocator/replay_answer.h"
#include "planner/allocator/replayer.h"
#include "planner/cli/plan_flags.h"
#include "planner/cli/replay_what_if.h"
#include "render/draw.h"

namespace gpumem::plan {
namespace {

constexpr double kMostSeconds = 60;
constexpr absl::string_view kExpandable = "expandable_segments:";

// The recorded settings with expandable segments, or without.
std::string OtherSettings(const std::string& recorded) {
  std::vector<std::string> parts;
  bool was_on = false;
  for (const absl::string_view part : absl::StrSplit(recorded, ',', absl::SkipWhitespace())) {
    if (absl::StartsWith(part, kExpandable))
      was_on = absl::EqualsIgnoreCase(part.substr(kExpandable.size()), "true");
    else
      parts.emplace_back(part);
  }
  if (!was_on) parts.push_back(absl::StrCat(kExpandable, "True"));
  return absl::StrJoin(parts, ",");
}

WhatIfRun RunOf(const ReplayedRun& run, int device) {
  return {run.conf, run.Of(device).peak_reserved, run.fit, run.change, run.error};
}

// What the program could do otherwise about what its allocator keeps for streams and pools, if anything.
std::vector<ProgramChange> ChangesToTry(const Analysis& analysis, int device) {
  std::vector<ProgramChange> changes;
  for (const DeviceAnalysis& each : analysis.devices) {
    if (each.device != device) continue;
    const Fragmentation& fragmentation = each.fragmentation;
    if (!fragmentation.chains.empty()) changes.push_back(ProgramChange::kOneStream);
    std::set<uint64_t> pools;
    for (const CachePart& part : fragmentation.caches_at_peak) pools.insert(part.pool);
    pools.erase(0);
    if (pools.size() > 1) changes.push_back(ProgramChange::kOnePool);
    if (!pools.empty()) changes.push_back(ProgramChange::kLargestFirst);
  }
  return changes;
}

absl::StatusOr<WhatIfAnswer> Replayed(const WhatIfQuestion& question, Console* console) {
  WhatIfAnswer answer;
  answer.device = question.device;
  GPUMEM_ASSIGN_OR_RETURN(const SimulationTools tools, FindSimulation());
  ReplayOptions options;
  options.device = question.device;
  options.timeout_s = kMostSeconds;
  if (question.failure != nullptr) options.until_failure_ns = question.failure->time_ns;
  Replayer replayer(tools, options, console);
  GPUMEM_RETURN_IF_ERROR(replayer.Load(question.trace));
  std::vector<ReplaySetting> settings = {{OtherSettings(replayer.recorded_conf())}};
  if (question.failure == nullptr) {
    for (const ProgramChange change : ChangesToTry(replayer.loaded().analysis, question.device))
      settings.push_back({replayer.recorded_conf(), 0, true, change});
  }
  GPUMEM_ASSIGN_OR_RETURN(const ReplayAnswer replay, replayer.Run(settings));
  if (!replay.compared().error.empty()) return absl::UnavailableError(replay.compared().error);
  const std::string& error = replay.what_ifs[0].error;
  if (!error.empty() && settings.size() == 1) return absl::UnavailableError(error);
  if (question.failure != nullptr && !replay.knows_room())
    return absl::UnavailableError("how much memory the GPU had for this program is not known");
  answer.torch = replay.torch;
  answer.is_exact = replay.is_exact();
  answer.not_followed = replay.not_followed;
  answer.doubts = replay.doubts;
  answer.recorded = RunOf(replay.compared(), question.device);
  answer.other = RunOf(replay.what_ifs[0], question.device);
  for (const ReplayedRun& run : replay.what_ifs) {
    if (run.change != ProgramChange::kNone && run.error.empty() && !run.death.has_value())
      answer.changes.push_back(RunOf(run, question.device));
  }
  return answer;
}

}  // namespace

WhatIfAnswer ReplayWhatIf(const WhatIfQuestion& question, Console* console) {
  absl::StatusOr<WhatIfAnswer> answer = Replayed(question, console);
  if (SignalGuard::Noted() != 0) EndLike(SignalGuard::Noted());
  if (answer.ok()) return *std::move(answer);
  WhatIfAnswer none;
  none.device = question.device;
  none.why_not = std::string(answer.status().message());
  return none;
}

namespace {

class ReplayCommand final : public Command {
 public:
  absl::string_view name() const override { return "replay"; }
  CommandPlace place() const override { return {CommandGroup::kPredict, 2}; }
  absl::string_view summary() const override { return "what other settings of PyTorch's allocator would have cost"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Runs the recorded requests through the allocator of an installed PyTorch, on a simulated GPU, once for each
setting, and compares what each reserves. First the recorded settings: the segments that come out must be those
that were recorded, and where they are not, the answer says by how much it may be off. Without --conf, the
settings that people try are tried. No GPU is needed or touched, and the program does not run again.

  gpumemshim replay run.gmtrace
  gpumemshim replay --conf expandable_segments:True run.gmtrace
  gpumemshim replay --conf max_split_size_mb:128 --conf max_split_size_mb:256
  gpumemshim replay --memory 24GiB run.gmtrace
  gpumemshim replay --torch ~/.venv/bin/python --keep replays/ run.gmtrace
  gpumemshim replay --json | jq '.what_ifs[] | {settings, devices}'

Exit code 0: the answer rests on an exact replay; 1: it does not, and may be off; 3: no answer; 4: the trace is
damaged, and this is of what could be read.
)";
  }

  void AddFlags(Flags* flags) override {
    flags->Add("--conf", &confs_, "a value of PYTORCH_CUDA_ALLOC_CONF; \"\" = PyTorch's defaults")
        .Value("SETTINGS")
        .Repeats();
    flags->Add("--try", &tries_, "the settings that people try, besides those of --conf");
    flags->Add("--check", &checks_, "only the recorded settings: is a replay of this trace exact?");
    flags->Add("--memory", &memory_, "on a GPU of this size, as a program sees it (24GiB)").Value("SIZE");
    flags->Add("--torch", &options_.torch, "a Python that has PyTorch (the recorded program's, or python3)")
        .Value("PYTHON");
    flags->Add("--keep", &options_.keep, "leave the traces of the replays in this folder").Value("DIR");
    flags->Add("--timeout", &options_.timeout_s, "seconds after which a replay is ended (600)").Value("S");
    flags->Add("--device", &options_.device, "the GPU that the answer is about (the one with the largest peak)")
        .Value("N");
    flags->Add("--json", &trace_.json, "exact numbers for machines (docs/json.md)");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    GPUMEM_ASSIGN_OR_RETURN(const uint64_t memory, Memory());
    if (!(options_.timeout_s >= 1 && options_.timeout_s <= 1e6))
      return absl::InvalidArgumentError("--timeout is a number of seconds");
    GPUMEM_ASSIGN_OR_RETURN(const SimulationTools tools, FindSimulation());
    trace_.shows_stacks = false;
    GPUMEM_ASSIGN_OR_RETURN(const LoadRequest request, trace_.Request(arguments, console));
    const absl::StatusOr<int> code = Replay(request, tools, memory, console);  // leaves no file, whatever happens
    if (SignalGuard::Noted() != 0) return EndLike(SignalGuard::Noted());
    return code;
  }

 private:
  absl::StatusOr<uint64_t> Memory() const {
    if (memory_.empty()) return 0;
    const std::optional<uint64_t> bytes = ParseBytes(memory_);
    if (!bytes.has_value() || *bytes < (uint64_t{64} << 20))
      return absl::InvalidArgumentError(
          absl::StrCat("--memory ", memory_, " is not a size of a GPU. Like this: 24GiB"));
    return *bytes;
  }

  std::vector<ReplaySetting> Settings(const std::string& recorded, uint64_t memory) const {
    std::vector<ReplaySetting> settings;
    if (checks_) return settings;
    if (memory != 0) settings.push_back({recorded, memory});
    for (const std::string& conf : confs_) settings.push_back({conf, memory});
    if (tries_ || confs_.empty()) {
      for (const std::string& conf : SettingsToTry(recorded)) {
        if (std::find(confs_.begin(), confs_.end(), conf) == confs_.end()) settings.push_back({conf, memory});
      }
    }
    return settings;
  }

  absl::StatusOr<int> Replay(const LoadRequest& request, const SimulationTools& tools, uint64_t memory,
                             Console* console) {
    Replayer replayer(tools, options_, console);
    GPUMEM_RETURN_IF_ERROR(replayer.Load(request));
    const LoadedTrace& loaded = replayer.loaded();
    console->ProgressDone();
    GPUMEM_ASSIGN_OR_RETURN(const ReplayAnswer answer, replayer.Run(Settings(replayer.recorded_conf(), memory)));
    const Document document = ReplayDocument(answer, loaded.input);
    console->Print(trace_.json ? ToJson(document) : ToText(document, console->out_style()));
    if (!answer.baseline.error.empty() && BestOf(answer) == nullptr) return kExitCannotRead;
    if (loaded.is_damaged()) return kExitDamaged;
    return answer.is_exact() ? kExitFine : kExitCheckFailed;
  }

  TraceOptions trace_;
  ReplayOptions options_;
  std::vector<std::string> confs_;
  std::string memory_;
  bool tries_ = false, checks_ = false;
};

}  // namespace
}  // namespace gpumem::plan

std::unique_ptr<gpumem::Command> gpumem::MakeReplayCommand() { return std::make_unique<plan::ReplayCommand>(); }

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "attach/child.h"
#include "attach/preload.h"
#include "base/output_file.h"
#include "base/secrets.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "planner/cli/plan_flags.h"
#include "planner/launch/program.h"
#include "planner/sweep/results.h"
#include "planner/sweep/spec.h"
#include "planner/sweep/sweep_document.h"
#include "planner/sweep/sweep_runner.h"
#include "render/draw.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr char kDefaultResults[] = "sweep_results";

uint64_t NowRealtimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!(text << file.rdbuf()))
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path, ": ", strerror(errno), ". docs/commands/sweep.md has an example."));
  return text.str();
}

class SweepCommand final : public Command {
 public:
  absl::string_view name() const override { return "sweep"; }
  CommandPlace place() const override { return {CommandGroup::kPredict, 4}; }
  absl::string_view summary() const override { return "predict the peaks of many configurations"; }
  bool takes_traces() const override { return false; }
  absl::string_view arguments() const override { return "[FLAGS] SPEC.yaml | --axis AXIS... -- COMMAND [ARGUMENT...]"; }
  absl::string_view help() const override {
    return R"(Runs an unmodified program for every combination of values, each until its peak is stable, on a simulated GPU
(as gpumemshim plan does) or on this machine's GPU. It writes what each combination needs: a row with its trace,
JSON, CSV, pictures, and how memory grows along each axis. Combinations that do not fit, fail or hang are rows
too. Run the same command again to resume an interrupted sweep.

  gpumemshim sweep sweep.yaml
  gpumemshim sweep --axis batch_size=1,2,4,8 --axis seq_len=256..4096x2 -- \
      python train.py --batch-size '{batch_size}' --seq-len '{seq_len}'
  gpumemshim sweep --axis batch-size=1..64x2 --where 'batch-size <= 16' --device a100 -- python train.py --batch-size 1
  gpumemshim sweep --on gpu sweep.yaml
  gpumemshim sweep --opacus-scan --seq_lengths 128 256 --batch_sizes 8 16 --max_physical_batch_sizes 1 2 --lora_ranks 8 16
  gpumemshim sweep --json sweep.yaml | jq '.configurations[] | {values, peak_allocated_bytes}'

Exit code 0: every configuration has an answer, and not fitting is one; 1: some failed or hung; 3: none has an
answer.
)";
  }
  bool takes_marked_command_line() const override { return true; }

  void AddFlags(Flags* flags) override {
    flags
        ->Add("--axis", &axes_,
              "values to go through: NAME=1,2,4, NAME=1..64x2, env:NAME=a,b; several: all combinations")
        .Value("AXIS")
        .Repeats();
    flags->Add("--where", &constraints_, "leave out configurations for which this does not hold: 'a <= b'")
        .Value("CONDITION")
        .Repeats();
    flags->Add("--on", &on_, "simulated (the default) or gpu: the machine's own").Value("WHERE");
    plan_.AddFlags(flags);
    flags->Add("--margin", &margin_, "share of the device that the largest that fits must leave free (5%)")
        .Value("SHARE");
    flags->Add("--results-dir,--results_dir", &results_dir_, "where rows, traces and pictures go (sweep_results)")
        .Value("DIR");
    flags->Add("-j,--workers", &workers_, "runs at once (as many as there are processors and memory for; on a GPU 1)")
        .Value("N");
    flags->Add("--fresh", &fresh_, "run again what an earlier sweep has in the results directory");
    flags->Add("--retry", &retry_, "of what is there, run again what failed or hung");
    flags->Add("--no-fork", &no_fork_, "start every run in a fresh process");
    flags->Add("--no-files", &no_files_, "write no JSON, CSV and pictures; rows and traces stay");
    flags->Add("--list", &list_, "only say which configurations there are");
    flags->Add("--json", &json_, "exact numbers for machines (docs/commands/sweep.md)");
    AddOpacusScanFlags(flags);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    const auto mark = std::find(arguments.begin(), arguments.end(), "--");
    const std::vector<std::string> files(arguments.begin(), mark);
    const std::vector<std::string> command(mark == arguments.end() ? mark : mark + 1, arguments.end());
    RunRequest base;
    std::vector<Configuration> configurations;
    if (const absl::Status status = Prepare(files, command, &base, &configurations); !status.ok())
      return absl::IsUnavailable(status) ? status : absl::InvalidArgumentError(status.message());
    if (list_) return List(configurations, console);
    GPUMEM_ASSIGN_OR_RETURN(const SimulationTools tools, FindTools(base.on_gpu));
    const absl::StatusOr<int> code = Sweep(base, configurations, tools, console);
    if (SignalGuard::Noted() == 0) return code;
    if (!code.ok()) console->Complain(code.status().message());
    return EndLike(SignalGuard::Noted());
  }

 private:
  void AddOpacusScanFlags(Flags* flags) {
    flags->Add("--opacus-scan,--s3", &opacus_scan_,
               "take the options below; without a command: DP-SGD with LoRA, random weights");
    flags->Add("--seq_lengths", &opacus_scan_options_.seq_lengths, "{seq_length}").Value("N...");
    flags->Add("--batch_sizes", &opacus_scan_options_.batch_sizes, "{batch_size}").Value("N...");
    flags
        ->Add("--max_physical_batch_sizes", &opacus_scan_options_.max_physical_batch_sizes, "{max_physical_batch_size}")
        .Value("N...");
    flags->Add("--lora_ranks", &opacus_scan_options_.lora_ranks, "{lora_rank}").Value("N...");
    flags->Add("--num_steps", &opacus_scan_options_.num_steps, "steps of a configuration (5)").Value("N");
    flags->Add("--model_name", &opacus_scan_options_.model_name, "whose shape is taken").Value("NAME");
    flags->Add("--token", &opacus_token_, "not needed: nothing is downloaded").Value("TOKEN");
  }

  absl::Status ReadSpec(const std::vector<std::string>& files, const std::vector<std::string>& command) {
    if (opacus_scan_) {
      if (!results_dir_.empty()) opacus_scan_options_.results_dir = results_dir_;
      spec_ = SpecOf(opacus_scan_options_, command);
      if (command.empty()) GPUMEM_RETURN_IF_ERROR(WriteExample());
    } else if (!files.empty()) {
      GPUMEM_ASSIGN_OR_RETURN(const std::string text, ReadText(files.front()));
      GPUMEM_ASSIGN_OR_RETURN(spec_, ParseSpec(text, files.front()));
    }
    if (!command.empty()) spec_.command = command;
    for (const std::string& text : axes_) {
      GPUMEM_ASSIGN_OR_RETURN(SweepAxis axis, ParseSweepAxis(text));
      std::erase_if(spec_.axes, [&](const SweepAxis& other) { return other.name == axis.name; });
      spec_.axes.push_back(std::move(axis));
    }
    for (const std::string& text : constraints_) {
      GPUMEM_ASSIGN_OR_RETURN(Constraint constraint, Constraint::Parse(text));
      spec_.constraints.push_back(std::move(constraint));
    }
    if (spec_.command.empty())
      return absl::InvalidArgumentError(
          "no command to sweep. Name a SPEC.yaml, or give one behind --, as in: gpumemshim sweep --axis "
          "batch-size=1,2,4 "
          "-- python train.py --batch-size 1");
    if (spec_.axes.empty() && spec_.configurations.empty())
      return absl::InvalidArgumentError("nothing to go through. Give --axis NAME=1,2,4, or `axes` in the YAML file.");
    return absl::OkStatus();
  }

  absl::Status WriteExample() const {
    const std::string path = ExamplePath(opacus_scan_options_);
    std::error_code error;
    fs::create_directories(opacus_scan_options_.results_dir, error);
    const absl::StatusOr<std::string> there = ReadText(path);
    if (there.ok() && *there == ExampleText()) return absl::OkStatus();  // its time says that it is as it was
    return WriteOutput(path, ExampleText(), {.hint = "Give another place with --results-dir"});
  }

  // What the file says where no flag does.
  absl::Status TakeDefaults() {
    const auto take = [](const std::string& from, std::string* to, absl::string_view unset) {
      if (!from.empty() && *to == unset) *to = from;
    };
    take(spec_.device, &plan_.device, "");
    take(spec_.memory, &plan_.memory, "");
    take(spec_.capability, &plan_.capability, "");
    take(spec_.steps, &plan_.steps, "stable");
    if (plan_.policies.empty() && !spec_.data_dependent.empty()) plan_.policies = {spec_.data_dependent};
    take(spec_.results_dir, &results_dir_, "");
    take(spec_.on, &on_, "");
    if (!spec_.timeout.empty() && plan_.timeout == PlanFlags::kTimeout &&
        !absl::SimpleAtod(spec_.timeout, &plan_.timeout))
      return absl::InvalidArgumentError("`timeout` is a number of seconds");
    if (!spec_.workers.empty() && spec_.workers != "auto" && workers_ == 0 &&
        !absl::SimpleAtoi(spec_.workers, &workers_))
      return absl::InvalidArgumentError("`workers` is a number, or auto");
    if (!spec_.device_count.empty() && !plan_.ranks.devices.has_value()) {
      int count = 0;
      if (!absl::SimpleAtoi(spec_.device_count, &count))
        return absl::InvalidArgumentError("`device_count` is a number");
      plan_.ranks.devices = count;
    }
    if (results_dir_.empty()) results_dir_ = kDefaultResults;
    if (on_.empty()) on_ = "simulated";
    return absl::OkStatus();
  }

  absl::Status Prepare(const std::vector<std::string>& files, const std::vector<std::string>& command, RunRequest* base,
                       std::vector<Configuration>* configurations) {
    GPUMEM_RETURN_IF_ERROR(ReadSpec(files, command));
    GPUMEM_RETURN_IF_ERROR(TakeDefaults());
    if (on_ != "simulated" && on_ != "gpu") return absl::InvalidArgumentError("--on is simulated or gpu");
    if (workers_ < 0 || workers_ > 1024) return absl::InvalidArgumentError("--workers is a number from 1");
    GPUMEM_RETURN_IF_ERROR(PutConstants(&spec_));
    base->command = spec_.command;
    GPUMEM_RETURN_IF_ERROR(plan_.Fill(base));
    spec_.command = base->command;  // torchrun may be in front of it now
    base->on_gpu = on_ == "gpu";
    GPUMEM_ASSIGN_OR_RETURN(share_free_, ParseMargin(margin_));
    GPUMEM_ASSIGN_OR_RETURN(*configurations, Configurations(spec_, &excluded_));
    if (configurations->empty()) return absl::InvalidArgumentError("the constraints leave no configuration");
    for (const Configuration& values : *configurations) GPUMEM_RETURN_IF_ERROR(CommandOf(spec_, values).status());
    return absl::OkStatus();
  }

  static absl::StatusOr<SimulationTools> FindTools(bool on_gpu) {
    if (!on_gpu) return FindSimulation();
    SimulationTools tools;
    GPUMEM_ASSIGN_OR_RETURN(tools.recorder, FindShimLibrary());
    return tools;
  }

  int List(const std::vector<Configuration>& configurations, Console* console) const {
    std::string text;
    for (const Configuration& values : configurations) {
      const absl::StatusOr<VariedCommand> command = CommandOf(spec_, values);
      for (const auto& [name, value] : command->environment)
        absl::StrAppend(&text, name, "=", WithoutSecrets(name, value), " ");
      absl::StrAppend(&text, absl::StrJoin(WithoutSecrets(command->command), " "), "\n");
    }
    console->Print(text);
    return kExitFine;
  }

  absl::StatusOr<int> Sweep(const RunRequest& base, const std::vector<Configuration>& configurations,
                            const SimulationTools& tools, Console* console) {
    const SignalGuard guard;
    const double started = MonotonicSeconds();
    SweepAnswer answer;
    answer.started_realtime_ns = NowRealtimeNs();
    GPUMEM_ASSIGN_OR_RETURN(SweepJournal journal, SweepJournal::Open(results_dir_));
    SweepRunner runner(spec_, configurations, base, tools, {workers_, !no_fork_, fresh_, retry_, GPUMEM_VERSION},
                       &journal, console);
    absl::StatusOr<std::vector<SweepRow>> rows = runner.Run();
    console->ProgressDone();
    if (absl::IsCancelled(rows.status())) {
      return absl::UnavailableError(
          absl::StrCat("interrupted; results so far are in ", results_dir_, ". Run the same command to resume."));
    }
    GPUMEM_RETURN_IF_ERROR(rows.status());
    answer.rows = *std::move(rows);
    answer.seconds = MonotonicSeconds() - started;
    answer.notes = runner.notes();
    answer.left = static_cast<int>(runner.left());
    if (runner.left() > 0)
      answer.notes.emplace_back("the first and the last configuration failed in the same way, so no more were run");
    if (runner.kept() > 0)
      answer.notes.push_back(
          absl::StrCat(runner.kept(), " of these rows were there from an earlier sweep (--fresh runs all again)"));
    FillAnswer(base, *console, &answer);
    return Print(&answer, console);
  }

  void FillAnswer(const RunRequest& base, const Console& console, SweepAnswer* answer) const {
    answer->command = WithoutSecrets(spec_.command);
    answer->simulated = !base.on_gpu;
    answer->steps = base.steps;
    answer->margin = share_free_;
    answer->version = GPUMEM_VERSION;
    answer->scaling = FitScaling(answer->rows);
    answer->directory = results_dir_;
    answer->language = console.out_style().phrases != nullptr ? SweepLanguage::kChinese : SweepLanguage::kEnglish;
    answer->device = base.on_gpu ? "the machine's GPU" : base.device.full_name;
    for (const SweepRow& row : answer->rows) answer->capacity = std::max(answer->capacity, row.capacity);
    if (opacus_scan_ && !opacus_token_.empty())
      answer->notes.emplace_back("--token was not used: nothing is downloaded");
    if (excluded_ > 0)
      answer->notes.push_back(absl::StrCat(excluded_, " combinations are left out by the constraints"));
  }

  absl::StatusOr<int> Print(SweepAnswer* answer, Console* console) const {
    absl::Status status;
    if (!no_files_) {
      const absl::StatusOr<WrittenResults> written = WriteResults(*answer, results_dir_);
      status = written.status();
      if (written.ok()) {
        answer->files = written->files;
        answer->notes.insert(answer->notes.end(), written->notes.begin(), written->notes.end());
      }
    }
    const Document document = SweepDocument(*answer);
    console->Print(json_ ? ToJson(document) : ToText(document, console->out_style()));
    GPUMEM_RETURN_IF_ERROR(status);
    const auto answered = std::count_if(answer->rows.begin(), answer->rows.end(), HasAnswer);
    if (answered == 0) return kExitCannotRead;
    return static_cast<size_t>(answered) == answer->rows.size() ? kExitFine : kExitCheckFailed;
  }

  PlanFlags plan_;
  OpacusScanOptions opacus_scan_options_;
  SweepSpec spec_;
  std::vector<std::string> axes_, constraints_;
  std::string on_, results_dir_, opacus_token_, margin_ = "5%";
  double share_free_ = 0;
  int workers_ = 0;
  size_t excluded_ = 0;
  bool fresh_ = false, retry_ = false, no_fork_ = false, no_files_ = false, list_ = false, json_ = false,
       opacus_scan_ = false;
};

}  // namespace
}  // namespace gpumem::plan

std::unique_ptr<gpumem::Command> gpumem::MakeSweepCommand() { return std::make_unique<plan::SweepCommand>(); }

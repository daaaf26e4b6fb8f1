// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/compare/check.h"
#include "answers/compare/diff.h"
#include "answers/compare/load_run.h"
#include "answers/parts/attribution_answer.h"
#include "answers/report/sections.h"
#include "attach/child.h"
#include "base/console.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/compare/load_checked_run.h"
#include "cli/flags.h"
#include "ledger/load/attribute.h"
#include "ledger/load/moment.h"
#include "planner/cli/plan_flags.h"
#include "planner/launch/program.h"
#include "planner/predict/find_reductions.h"
#include "planner/predict/forecast.h"
#include "planner/predict/forecaster.h"
#include "planner/predict/plan_answer.h"
#include "planner/predict/planner.h"
#include "planner/predict/vary.h"
#include "planner/predict/verdict.h"
#include "planner/predict/what_if.h"
#include "render/draw.h"

namespace gpumem::plan {
namespace {

constexpr int kStacks = 8;  // in the JSON, some 15 KB each; `gpumemshim peak --json TRACE` has all of them

// PlanCheck: `gpumemshim plan --check budget.yaml`: the limits of gpumemshim check, held against a plan's answer.
//
// Not thread-safe. Failure: InvalidArgument where the limits make no sense; that of LoadTrace for their baseline.
class PlanCheck {
 public:
  // --check and --format.
  void AddFlags(Flags* flags);

  bool given() const { return !file_.empty(); }
  // Whether only verdicts are printed, for a program to read.
  bool for_machines() const { return given() && format_ != "text"; }

  absl::Status Read(Console* console);

  // Why the run needs more than a baseline that is a trace, in a sentence; "" where there is none to compare with.
  std::string WhyLarger(LoadedTrace* loaded) const;

  std::vector<CheckLine> Lines(const Forecast& forecast, const std::string& why_larger) const;
  std::string Text(const std::vector<CheckLine>& lines) const;

  // That of the limits; kExitCannotRead where the plan has no answer.
  static int ExitCode(const Forecast& forecast, const std::vector<CheckLine>& lines);

 private:
  std::string file_, format_ = "text";
  Limits limits_;
  LoadedRun baseline_;
};

void PlanCheck::AddFlags(Flags* flags) {
  flags->Add("--check", &file_, "hold the answer against the limits of a YAML file (docs/ci.md)").Value("FILE");
  flags->Add("--format", &format_, "of --check: text, junit or github (annotations)")
      .Value("FORMAT")
      .OneOf({"text", "junit", "github"});
}

absl::Status PlanCheck::Read(Console* console) {
  if (!given()) {
    return format_ == "text" ? absl::OkStatus()
                             : absl::InvalidArgumentError("--format is for --check budget.yaml, which is missing");
  }
  GPUMEM_ASSIGN_OR_RETURN(limits_, ReadLimits(file_));
  GPUMEM_ASSIGN_OR_RETURN(baseline_, LoadBaseline(TraceOptions(), limits_, console));
  return absl::OkStatus();
}

std::string PlanCheck::WhyLarger(LoadedTrace* loaded) const {
  if (loaded == nullptr || !baseline_.facts.has_value()) return "";
  const absl::StatusOr<std::vector<RunFacts>> facts = LoadRunFacts({{"peak"}, ""}, loaded);
  return facts.ok() ? DiffRuns(*baseline_.facts, facts->front(), false).headline : "";
}

// By way of the JSON, so that `gpumemshim check plan.json` says the same.
std::vector<CheckLine> PlanCheck::Lines(const Forecast& forecast, const std::string& why_larger) const {
  absl::StatusOr<CheckedRun> run = ParsePlanJson(ToJson(PlanAnswer(forecast)), absl::StrJoin(forecast.command, " "));
  if (!run.ok()) return {};
  return CheckRun(*run, limits_, limits_.baseline.empty() ? nullptr : &baseline_.checked, why_larger);
}

std::string PlanCheck::Text(const std::vector<CheckLine>& lines) const {
  return FormatCheck(lines, CheckFormatOf(format_));
}

int PlanCheck::ExitCode(const Forecast& forecast, const std::vector<CheckLine>& lines) {
  const bool has_answer = !lines.empty() && Assess(forecast).verdict != Verdict::kUnknown;
  return has_answer ? ExitCodeOfCheck(lines) : kExitCannotRead;
}

// docs/exit-codes.md; a script tells "fits" from all else by 0.
constexpr int kExitTooClose = 5, kExitFitsUnless = 6;

int ExitCodeOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFits:
      return kExitFine;
    case Verdict::kFitsUnless:
      return kExitFitsUnless;
    case Verdict::kTooClose:
      return kExitTooClose;
    case Verdict::kDoesNotFit:
      return kExitCheckFailed;
    case Verdict::kUnknown:
      return kExitCannotRead;
  }
  return kExitCannotRead;
}

class PlanCommand final : public Command {
 public:
  absl::string_view name() const override { return "plan"; }
  CommandPlace place() const override { return {CommandGroup::kPredict, 1}; }
  absl::string_view summary() const override { return "predict peak and largest batch on a GPU that you do not have"; }
  bool takes_traces() const override { return false; }
  absl::string_view arguments() const override { return "[FLAGS] -- COMMAND [ARGUMENT...]"; }
  absl::string_view help() const override {
    return R"(Runs COMMAND with the installed PyTorch on a simulated GPU: the program and the caching allocator run for
real, kernels compute nothing. It ends the program once the peak is stable, then reports the peak, what it is
made of, which changes would save most, and how certain the number is. No GPU is needed or touched.

  gpumemshim plan -- python train.py
  gpumemshim plan --device rtx4090 -- python train.py --batch-size 8
  gpumemshim plan --memory 40GiB --capability 8.0 -- python train.py
  gpumemshim plan --vary 'batch_size=1..64' -- python train.py --batch-size '{batch_size}'
  gpumemshim plan --explain --device rtx4090 -- python train.py
  gpumemshim plan --nproc-per-node 2 -- python train.py
  gpumemshim plan --rank 0 --world-size 64 -- python train.py
  gpumemshim plan --check budget.yaml -- python train.py
  gpumemshim plan --json -- python train.py | jq '.verdict, .peak'
  gpumemshim plan --list-devices

Exit code 0: it fits; 1: it does not fit; 5: too close to say; 6: it fits unless something happens that the run
did not see, such as a longer batch later; 3: no answer, because the program failed or did not use CUDA. With
--check the limits decide: 0: all hold; 1: one is broken; 5: one is within the range, too close to say; 7: one is
unknown; 3: no answer. All commands read the trace that it leaves.
)";
  }
  bool takes_command_line() const override { return true; }

  void AddFlags(Flags* flags) override {
    flags_.AddFlags(flags);
    flags->Add("--vary", &vary_, "find the largest value that fits: NAME=1..64, NAME=1,2,4 or env:NAME=1..64")
        .Value("AXIS");
    flags->Add("--margin", &margin_, "share of the device that a value of --vary must leave free (5%)").Value("SHARE");
    check_.AddFlags(flags);
    flags->Add("--no-what-if", &no_what_if_, "no further runs that find out what changes would save");
    flags->Add("--explain", &explain_, "measure what each change that applies would save, and what it takes to fit");
    flags->Add("--fit", &fit_, "with --explain: the size to fit into (the device's memory)").Value("SIZE");
    flags->Add("--list-devices", &list_, "the GPUs that are known, and where their numbers are from");
    flags->Add("-o,--output", &output_, "where to leave the trace (plan.PROGRAM.PID.gmtrace)").Value("FILE");
    flags->Add("--json", &json_, "exact numbers for machines (docs/json.md)");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (list_) return ListDevices(console);
    if (arguments.empty()) {
      return absl::InvalidArgumentError("no command to plan. Like this: gpumemshim plan -- python train.py");
    }
    RunRequest request;
    request.command = arguments;
    std::vector<Axis> axes;
    if (const absl::Status status = MakeRequest(&request, &axes); !status.ok()) {
      return absl::InvalidArgumentError(status.message());
    }
    if (check_.given() && !vary_.empty())
      return absl::InvalidArgumentError("--check is for one program: leave --vary out, or plan with the value found");
    GPUMEM_RETURN_IF_ERROR(check_.Read(console));
    GPUMEM_ASSIGN_OR_RETURN(const SimulationTools tools, FindSimulation());
    const absl::StatusOr<int> code = Plan(request, axes, tools, console);  // leaves no file, whatever happens
    if (SignalGuard::Noted() != 0) return EndLike(SignalGuard::Noted());
    return code;
  }

 private:
  absl::StatusOr<int> Plan(const RunRequest& request, const std::vector<Axis>& axes, const SimulationTools& tools,
                           Console* console) {
    GPUMEM_ASSIGN_OR_RETURN(const double margin, ParseMargin(margin_));
    begun_ = MonotonicSeconds();
    Planner planner(tools, console);
    Forecaster forecaster(request, axes, &planner, explain_ || TriesChanges());
    forecaster.forecast().margin = margin;
    forecaster.forecast().steps_given = flags_.steps != "stable";
    GPUMEM_ASSIGN_OR_RETURN(PlannedRun run, forecaster.Answer(flags_.policy_given()));
    GPUMEM_RETURN_IF_ERROR(CheckPins(forecaster.forecast()));
    return Print(std::move(run), &forecaster, &planner, console);
  }

  // A pin that matches nothing changes nothing: the answer would be for another program.
  absl::Status CheckPins(const Forecast& forecast) const {
    for (const std::string& text : flags_.PinnedTexts()) {
      uint64_t count = 0;
      for (const PlannedProcess& process : forecast.processes) {
        const auto found = process.reported.pinned.find(text);
        if (found != process.reported.pinned.end()) count += found->second;
      }
      if (count > 0) continue;
      if (text == "--routing") {
        return absl::InvalidArgumentError(
            "--routing changed nothing: no topk or argmax over experts has scores that nobody computed");
      }
      std::vector<std::string> sites;
      for (const HostRead& read : forecast.reads) sites.push_back(read.site);
      return absl::InvalidArgumentError(absl::StrCat(
          "nothing was read where '", text, "' says",
          sites.empty() ? "" : absl::StrCat(". Values that are not known were read at: ", absl::StrJoin(sites, ", "))));
    }
    return absl::OkStatus();
  }

  int ListDevices(Console* console) const {
    using Profile = DeviceProfile;
    Document list;
    list.Table<Profile>(
        "", "",
        {{"", "name", Unit::kText, "", &Profile::name},
         {"", "memory", Unit::kBytes, "", &Profile::memory_bytes},
         {"", "capability", Unit::kNumber, "", [](const Profile& device) { return CapabilityText(device.capability); }},
         {"", "SMs", Unit::kNumber, "", &Profile::multiprocessors},
         {"", "source", Unit::kText, "", &Profile::source}},
        AllDevices(), {});
    console->Print(ToText(list, console->out_style()));
    return kExitFine;
  }

  absl::Status MakeRequest(RunRequest* request, std::vector<Axis>* axes) {
    GPUMEM_RETURN_IF_ERROR(flags_.Fill(request));
    if (!fit_.empty() && !explain_) return absl::InvalidArgumentError("--fit is the goal of --explain: give both");
    if (!fit_.empty() && ParseBytes(fit_).value_or(0) == 0)
      return absl::InvalidArgumentError(absl::StrCat("--fit ", fit_, " is not a size. Like this: 24GiB"));
    if (explain_) request->what_if = "look";
    for (const std::string& text : vary_) {
      GPUMEM_ASSIGN_OR_RETURN(Axis axis, ParseAxis(text));
      axes->push_back(std::move(axis));
    }
    return absl::OkStatus();
  }

  bool TriesChanges() const { return !no_what_if_ && vary_.empty() && !check_.given(); }

  void AddTotals(const PlannedRun& run, const Planner& planner, TimeSpent* time) const {
    time->further_runs = planner.runs() - 1;
    time->further_s = std::max(0.0, planner.spent_s() - run.time.before_cuda_s - run.time.first_step_s.value_or(0) -
                                        run.time.later_s - run.time.reading_s);
    time->total_s = MonotonicSeconds() - begun_;
  }

  uint64_t GoalOf(const Forecast& forecast) const {
    return fit_.empty() ? forecast.capacity() : ParseBytes(fit_).value_or(0);
  }

  absl::StatusOr<int> Print(PlannedRun run, Forecaster* forecaster, Planner* planner, Console* console) {
    Forecast& forecast = forecaster->forecast();
    if (!run.answered()) return PrintChecked(forecast, PlanAnswer(forecast), "", console);
    AttributionRequest asked;
    asked.moments = {ParseMoment("peak", *run.loaded)};
    const absl::StatusOr<std::unique_ptr<Attribution>> attribution = AttributeLoaded(asked, "", run.loaded.get());
    if (!attribution.ok()) console->Complain(attribution.status().message());
    const Moment* const moment = attribution.ok() ? &(*attribution)->moments.front() : nullptr;
    if (explain_ && !IsCutShort(run.end)) {
      forecast.explanation = FindReductions(forecaster->chosen(), forecast, GoalOf(forecast), MeasureBy(planner));
    } else if (TriesChanges() && !IsCutShort(run.end)) {
      forecast.what_ifs = TryChanges(forecaster->chosen(), run, moment, planner);
    }
    if (SignalGuard::Noted() != 0) return kExitCannotRead;
    const std::string why_larger = check_.WhyLarger(run.loaded.get());
    GPUMEM_RETURN_IF_ERROR(planner->KeepTraces(output_, &run));
    forecast.processes = run.processes;
    AddTotals(run, *planner, &forecast.time);
    return PrintChecked(forecast, WholeAnswer(forecast, moment, run.loaded->input), why_larger, console);
  }

  static Document WholeAnswer(const Forecast& forecast, const Moment* moment, const ReportInput& input) {
    Document peak, losses;
    if (moment != nullptr) {
      TextOptions largest;
      largest.top = kStacks;
      peak.AppendFields(MomentAnswer("peak", input, largest));
      peak.Gap();
      AddCategories(*moment, "the peak", input, &peak);
    }
    if (const DeviceAnalysis* const device = LargestDevice(*input.analysis))
      AddPeak(*device, DefaultMeasure(*device), input, {}, &peak);
    AddLosses(input, &losses);
    Document answer = PlanAnswer(forecast, std::move(peak), std::move(losses));
    answer.Gap();
    answer.Line(absl::StrCat("All of it: gpumemshim report ", input.trace_argument), Tone::kAside);
    return answer;
  }

  // The answer, with the verdicts of --check before it, in it, or in its place.
  int PrintChecked(const Forecast& forecast, Document answer, const std::string& why_larger, Console* console) const {
    const std::vector<CheckLine> lines = check_.given() ? check_.Lines(forecast, why_larger) : std::vector<CheckLine>();
    if (json_) {
      if (check_.given()) answer.AppendFields(CheckLines(lines));
      console->Print(ToJson(answer));
    } else {
      if (check_.given() && check_.for_machines()) console->Print(check_.Text(lines));
      if (check_.given() && !check_.for_machines()) console->Say(absl::StrCat(check_.Text(lines), "\n"));
      if (!check_.for_machines()) console->Print(ToText(answer, console->out_style()));
    }
    return check_.given() ? PlanCheck::ExitCode(forecast, lines) : ExitCodeOf(Assess(forecast).verdict);
  }

  PlanFlags flags_;
  PlanCheck check_;
  std::string output_, margin_ = "5%", fit_;
  std::vector<std::string> vary_;
  double begun_ = 0;
  bool no_what_if_ = false, explain_ = false, list_ = false, json_ = false;
};

}  // namespace
}  // namespace gpumem::plan

std::unique_ptr<gpumem::Command> gpumem::MakePlanCommand() { return std::make_unique<plan::PlanCommand>(); }

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "commands/attribute.h"
#include "commands/child.h"
#include "commands/command.h"
#include "commands/commands.h"
#include "commands/forecaster.h"
#include "commands/plan_what_if.h"
#include "commands/planner.h"
#include "commands/preload.h"
#include "plan/forecast_json.h"
#include "plan/forecast_page.h"
#include "plan/ranks.h"
#include "plan/vary.h"
#include "report/attribution_json.h"
#include "report/attribution_sections.h"
#include "report/sections.h"

namespace gpumem {
namespace {

constexpr char kDefaultDevice[] = "H100";
// Beyond so many reads of device memory a program that was to make a few steps waits for a value that never comes.
constexpr uint64_t kMostReads = 200'000;

absl::StatusOr<std::string> PinsJson(const std::vector<std::string>& pins) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& pin : pins) {
    const size_t equals = pin.rfind('=');
    const std::string text = pin.substr(0, equals), value = equals == std::string::npos ? "" : pin.substr(equals + 1);
    nlohmann::json parsed = nlohmann::json::parse(absl::AsciiStrToLower(value), nullptr, false);
    if (text.empty() || parsed.is_discarded() || parsed.is_structured()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--pin '", pin,
                       "' is no pin. Like this: --pin 'train.py:57=True', or --pin 'lengths.max()=512' for every "
                       "line that has this text"));
    }
    list.push_back({text, parsed});
  }
  return list.dump();
}

// "upper", "zero", "expect=0.5", as SIMCUDA_DATA_DEPENDENT has it.
absl::StatusOr<std::string> ParsePolicy(absl::string_view text) {
  if (text == "upper" || text == "zero") return std::string(text);
  double share = -1;
  if (absl::ConsumePrefix(&text, "expect=") && absl::SimpleAtod(text, &share) && share >= 0 && share <= 1)
    return std::string(text);
  return absl::InvalidArgumentError("--data-dependent is upper, zero or expect=SHARE, as in expect=0.5");
}

// The libraries whose workspaces were wanted at the peak's stacks, as far as their names tell.
std::vector<std::string> UnknownWorkspaces(const Moment& moment, const ReportInput& input) {
  static constexpr std::pair<absl::string_view, absl::string_view> kParts[] = {
      {"cudnn", "cuDNN"},          {"_fft_", "cuFFT"},           {"linalg_cholesky", "cuSOLVER"},
      {"linalg_eigh", "cuSOLVER"}, {"linalg_svd", "cuSOLVER"},   {"linalg_qr", "cuSOLVER"},
      {"linalg_lu", "cuSOLVER"},   {"linalg_solve", "cuSOLVER"}, {"linalg_inv", "cuSOLVER"},
      {"cusparse", "cuSPARSE"}};
  std::set<std::string> found;
  for (const AttributedUse& use : moment.uses) {
    for (const ResolvedFrame& frame : input.stacks->Frames(use.stack_id)) {
      for (const auto& [part, name] : kParts) {
        if (!frame.python && absl::StrContains(frame.function, part)) found.insert(std::string(name));
      }
    }
  }
  return {found.begin(), found.end()};
}

class PlanCommand final : public Command {
 public:
  absl::string_view name() const override { return "plan"; }
  absl::string_view summary() const override {
    return "the peak of an unmodified program on a GPU that is not here, and the largest batch that fits";
  }
  absl::string_view arguments() const override { return "[FLAGS] -- COMMAND [ARGUMENT...]"; }
  absl::string_view help() const override {
    return "Runs COMMAND with the installed PyTorch on a simulated GPU: its caching allocator and the program run for\n"
           "real, kernels compute nothing. Once the peak is stable the program is ended, and its peak is told: what\n"
           "it is made of, which changes would save most, and how sure the number is. No GPU is needed or touched.\n"
           "\n"
           "  gpumem plan -- python train.py\n"
           "  gpumem plan --device rtx4090 -- python train.py --batch-size 8\n"
           "  gpumem plan --memory 40GiB --capability 8.0 -- python train.py\n"
           "  gpumem plan --vary 'batch_size=1..64' -- python train.py --batch-size '{batch_size}'\n"
           "  gpumem plan --nproc-per-node 2 -- python train.py\n"
           "  gpumem plan --rank 0 --world-size 64 -- python train.py\n"
           "  gpumem plan --json -- python train.py | jq '.verdict, .peak'\n"
           "  gpumem plan --list-devices\n"
           "\n"
           "Exit code 0: it fits; 1: it does not, or data decide; 3: no answer, for the program failed or did not\n"
           "use CUDA. The trace that is left is one like any other: gpumem flame and all commands read it.\n";
  }
  bool takes_command_line() const override { return true; }

  void AddFlags(CLI::App* app) override {
    app->add_option("--device", device_, "which GPU to plan for (H100); --list-devices names all")->type_name("NAME");
    app->add_option("--memory", memory_, "its memory, as a program sees it (40GiB)")->type_name("SIZE");
    app->add_option("--capability", capability_, "its compute capability (8.6)")->type_name("X.Y");
    app->add_option("--device-count", ranks_.devices, "how many of them (1, or as many as there are ranks)")
        ->type_name("N");
    app->add_option("--nproc-per-node", ranks_.per_node, "start so many ranks, by torchrun")->type_name("N");
    app->add_option("--rank", ranks_.rank, "one process poses as this rank of --world-size (0)")->type_name("R");
    app->add_option("--world-size", ranks_.world_size, "of how many ranks it is one")->type_name("N");
    app->add_option("--steps", steps_,
                    "optimizer steps to run: a number, all, or stable (until the peak did not grow for 2)")
        ->type_name("N");
    app->add_option("--timeout", timeout_, "seconds after which a run is ended (300)")->type_name("S");
    app->add_option("--vary", vary_, "find the largest value that fits: NAME=1..64, NAME=1,2,4 or env:NAME=1..64")
        ->type_name("AXIS");
    app->add_option("--data-dependent", policy_,
                    "what nonzero, masks and unique are to find: upper (everything), zero, expect=0.5")
        ->type_name("WHAT");
    app->add_option("--pin", pins_, "what reading a tensor gives on a line: FILE.py:LINE=VALUE or TEXT=VALUE")
        ->type_name("PIN");
    app->add_flag("--no-what-if", no_what_if_, "no further runs that find out what changes would save");
    app->add_flag("--list-devices", list_, "the GPUs that are known, and where their numbers are from");
    app->add_option("-o,--output", output_, "where to leave the trace (plan.PROGRAM.PID.gmtrace)")->type_name("FILE");
    app->add_flag("--json", json_, "exact numbers for machines (docs/json.md)");
  }

  int Run(const std::vector<std::string>& arguments, Console* console) override {
    if (list_) return ListDevices(console);
    if (arguments.empty()) {
      console->Complain("no command to plan. Like this: gpumem plan -- python train.py");
      return kExitUsage;
    }
    SimulatedRun request;
    request.command = arguments;
    std::vector<Axis> axes;
    if (const absl::Status status = MakeRequest(&request, &axes); !status.ok()) {
      console->Complain(status.message());
      return kExitUsage;
    }
    const absl::StatusOr<SimulationTools> tools = FindTools();
    if (!tools.ok()) {
      console->Complain(tools.status().message());
      return kExitCannotRead;
    }
    const int code = Plan(request, axes, *tools, console);  // leaves no file behind, whatever happens
    return SignalGuard::Noted() == 0 ? code : EndLike(SignalGuard::Noted());
  }

 private:
  int Plan(const SimulatedRun& request, const std::vector<Axis>& axes, const SimulationTools& tools, Console* console) {
    Planner planner(tools, console);
    Forecaster forecaster(request, axes, &planner);
    absl::StatusOr<PlannedRun> run = forecaster.Answer(!policy_.empty());
    if (run.ok()) return Print(*std::move(run), &forecaster, &planner, console);
    if (!absl::IsCancelled(run.status())) console->Complain(run.status().message());
    return absl::IsInvalidArgument(run.status()) ? kExitUsage : kExitCannotRead;
  }

  int ListDevices(Console* console) const {
    Page page(console->out_style());
    std::vector<Page::Row> rows{{"name", "memory", "capability", "SMs", "source"}};
    for (const DeviceProfile& device : AllDevices()) {
      rows.push_back({device.name, FormatBytes(device.memory_bytes()), CapabilityText(device.capability),
                      absl::StrCat(device.multiprocessors), device.source});
    }
    page.Table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kLeft}, rows);
    console->Print(page.text());
    return kExitFine;
  }

  absl::Status MakeRequest(SimulatedRun* request, std::vector<Axis>* axes) {
    GPUMEM_ASSIGN_OR_RETURN(request->device, FindDevice(device_.empty() ? kDefaultDevice : device_));
    if (!memory_.empty()) {
      const std::optional<uint64_t> bytes = ParseBytes(memory_);
      if (!bytes.has_value() || *bytes < (uint64_t{1} << 30))
        return absl::InvalidArgumentError(absl::StrCat("--memory ", memory_, " is no size of a GPU. Like this: 40GiB"));
      request->device.memory_mib = *bytes >> 20;
      request->device.source = "--memory";
      if (device_.empty()) request->device.name = request->device.full_name = absl::StrCat("a GPU of ", memory_);
    }
    if (!capability_.empty()) {
      GPUMEM_ASSIGN_OR_RETURN(request->device.capability, ParseCapability(capability_));
    }
    GPUMEM_RETURN_IF_ERROR(PlaceRanks(ranks_, request));
    uint64_t steps = 0;
    if (steps_ != "stable" && steps_ != "all" && (!absl::SimpleAtoi(steps_, &steps) || steps == 0))
      return absl::InvalidArgumentError("--steps is a number from 1, all or stable");
    request->steps = steps_;
    if (!(timeout_ >= 1 && timeout_ <= 1e6)) return absl::InvalidArgumentError("--timeout is a number of seconds");
    request->timeout_s = timeout_;
    if (steps_ != "all") request->most_reads = kMostReads;
    GPUMEM_ASSIGN_OR_RETURN(request->data_dependent, ParsePolicy(policy_.empty() ? "upper" : policy_));
    GPUMEM_ASSIGN_OR_RETURN(request->pins, PinsJson(pins_));
    for (const std::string& text : vary_) {
      GPUMEM_ASSIGN_OR_RETURN(Axis axis, ParseAxis(text));
      axes->push_back(std::move(axis));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<SimulationTools> FindTools() {
    GPUMEM_ASSIGN_OR_RETURN(const std::string recorder, FindShimLibrary());
    std::error_code error;
    return FindSimulationTools(std::filesystem::read_symlink("/proc/self/exe", error).string(), recorder);
  }

  int Print(PlannedRun run, Forecaster* forecaster, Planner* planner, Console* console) {
    Forecast& forecast = forecaster->forecast();
    if (!run.answered()) return PrintFailure(forecast, console);
    AttributionRequest asked;
    asked.moments = {ParseMoment("peak", *run.loaded)};
    const std::unique_ptr<Attribution> attribution = AttributeLoaded({}, asked, run.loaded.get(), console);
    const Moment* const moment = attribution == nullptr ? nullptr : &attribution->moments.front();
    if (moment != nullptr) forecast.libraries = UnknownWorkspaces(*moment, run.loaded->input);
    if (!no_what_if_ && vary_.empty() && !IsCutShort(run.end))
      forecast.what_ifs = TryChanges(forecaster->chosen(), run, moment, planner);
    if (SignalGuard::Noted() != 0) return kExitCannotRead;
    if (const absl::Status status = planner->KeepTraces(output_, &run); !status.ok()) {
      console->Complain(status.message());
      return kExitCannotRead;
    }
    forecast.processes = run.processes;
    const ReportInput& input = run.loaded->input;
    if (json_) {
      console->Print(ForecastJson(forecast, [&](JsonWriter* json) {
        if (moment != nullptr) WriteJsonAt(input, 0, json);
      }));
    } else {
      PrintPage(forecast, moment, input, console);
    }
    return forecast.is_open() ? kExitCannotRead : forecast.fits() ? kExitFine : kExitCheckFailed;
  }

  static void PrintPage(const Forecast& forecast, const Moment* moment, const ReportInput& input, Console* console) {
    Page page(console->out_style());
    AddVerdict(forecast, &page);
    AddVaried(forecast, &page);
    if (moment != nullptr) {
      page.Gap();
      AddCategories(*moment, "the peak", input, &page);
    }
    if (const DeviceAnalysis* const device = LargestDevice(*input.analysis))
      AddPeak(*device, DefaultMeasure(*device), input, {}, &page);
    AddWhatIfs(forecast, &page);
    AddConfidence(forecast, &page);
    AddLosses(input, &page);
    page.Gap();
    page.Line(absl::StrCat("All of it: gpumem report ", input.trace_argument), Tone::kAside);
    console->Print(page.text());
  }

  int PrintFailure(const Forecast& forecast, Console* console) const {
    if (json_) {
      console->Print(ForecastJson(forecast, nullptr));
    } else {
      Page page(console->out_style());
      AddFailure(forecast, &page);
      console->Print(page.text());
    }
    return kExitCannotRead;
  }

  std::string device_, memory_, capability_, steps_ = "stable", policy_, output_;
  std::vector<std::string> vary_, pins_;
  RanksWanted ranks_;
  double timeout_ = 300;
  bool no_what_if_ = false, list_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakePlanCommand() { return std::make_unique<PlanCommand>(); }

}  // namespace gpumem

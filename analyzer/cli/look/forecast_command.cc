// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <cstdlib>

#include "absl/strings/str_split.h"
#include "answers/outlook/outlook.h"
#include "answers/report/trace_answer.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/trace_options.h"
#include "ledger/load/findings.h"
#include "live/watch/callbacks.h"
#include "live/watch/forecast_watch.h"
#include "render/draw.h"

namespace gpumem {
namespace {

class ForecastCommand final : public Command {
 public:
  absl::string_view name() const override { return "forecast"; }
  CommandPlace place() const override { return {CommandGroup::kReport, 11}; }
  absl::string_view summary() const override { return "whether and when memory runs out, if it goes on as it did"; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Looks at the peaks of the training steps, not at totals that were polled: whether they grow, since when, by how
much a step, and when they reach what the GPU has left for PyTorch. A time is given as a range that holds in nine
of ten cases, and only once it has been growing for longer than it has left (docs/forecast.md has the test set).
Growth that gets less and less, that comes and goes, or that happened once is not growth here.

  gpumemshim forecast run.gmtrace
  gpumemshim forecast run.gmtrace --check      exit code 1 where memory runs out, or that is not known
  gpumemshim forecast --json | jq '{kind, earliest_steps, latest_steps, cause}'

With --watch it goes on looking while programs run, and warns when the risk rises: a line, a mark in the trace (the
first one is a snapshot), and what --exec, --webhook and --signal name. The program never waits for any of these.

  gpumemshim forecast --watch 4242 --exec './checkpoint.sh' --signal USR1
  gpumemshim forecast --watch runs/ --risk high --json
)";
  }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    flags->Add("--check", &check_, "exit code 1 where memory runs out at this rate, or that is not known");
    flags->Add("--watch", &watches_, "go on while programs run, also of a PID or all of a DIR, and warn");
    flags->Add("--risk", &risk_, "warn from this risk on: medium, high, critical (medium)")
        .Value("RISK")
        .OneOf({"medium", "high", "critical"});
    flags->Add("--pause", &pause_s_, "seconds until the same is warned of again (600)").Value("SECONDS");
    flags->Add("--interval", &watch_.interval_s, "seconds from look to look (1)").Value("SECONDS");
    flags->Add("--exec", &watch_.callbacks.command, "a command for the shell at each warning").Value("COMMAND");
    flags->Add("--webhook", &watch_.callbacks.webhook, "where to post each warning as JSON, by curl").Value("URL");
    flags->Add("--allow-host", &watch_.callbacks.hosts, "a host that --webhook may go to").Value("HOST").Repeats();
    flags->Add("--signal", &signal_, "to the program at each warning, if it has a handler for it").Value("NAME");
    flags->Add("--callback-timeout", &watch_.callbacks.timeout_s, "seconds until a callback is killed (30)")
        .Value("SECONDS");
    flags->Add("--no-marks", &no_marks_, "note nothing in the trace");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    if (watches_) return Watch(arguments.empty() ? "" : arguments[0], console);
    if (!watch_.callbacks.command.empty() || !watch_.callbacks.webhook.empty() || !signal_.empty())
      return absl::InvalidArgumentError("--exec, --webhook and --signal need --watch.");
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadSection(trace_, arguments, console));
    AttributionRequest request;
    request.steps = true;
    GPUMEM_ASSIGN_OR_RETURN(const LoadedFindings findings, LoadFindings(std::move(request), "", loaded.get()));
    const Outlook outlook = OutlookOf(loaded->input), host = HostOutlookOf(loaded->input);
    Document answer = TraceAnswer("forecast", loaded->input);
    answer.Append(OutlookAnswer(outlook, host));
    EndWithNotes(loaded->input, &answer);
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    const bool fails = outlook.forecast.kind == ForecastKind::kReaches ||
                       outlook.forecast.kind == ForecastKind::kTooShort || host.forecast.kind == ForecastKind::kReaches;
    return check_ && fails && !loaded->is_damaged() ? static_cast<int>(kExitCheckFailed) : ExitCodeOf(*loaded);
  }

 private:
  // What flags leave open the environment says, as the recorder has it.
  void ReadEnvironment() {
    const auto take = [](const char* name, std::string* value) {
      const char* const given = std::getenv(name);
      if (value->empty() && given != nullptr) *value = given;
    };
    take("GPUMEMSHIM_FORECAST_RISK", &risk_);
    take("GPUMEMSHIM_FORECAST_EXEC", &watch_.callbacks.command);
    take("GPUMEMSHIM_FORECAST_SIGNAL", &signal_);
    take("GPUMEMSHIM_FORECAST_WEBHOOK", &watch_.callbacks.webhook);
    std::string hosts;
    take("GPUMEMSHIM_FORECAST_ALLOW_HOST", &hosts);
    for (const absl::string_view host : absl::StrSplit(hosts, ',', absl::SkipEmpty()))
      watch_.callbacks.hosts.emplace_back(host);
  }

  absl::Status ReadWatchFlags(const std::string& place) {
    ReadEnvironment();
    if (!risk_.empty() && risk_ != "medium" && risk_ != "high" && risk_ != "critical")
      return absl::InvalidArgumentError("GPUMEMSHIM_FORECAST_RISK is medium, high or critical.");
    if (!trace_.from.empty() || !trace_.to.empty() || trace_.layer != "all")
      return absl::InvalidArgumentError("--watch looks at the whole run: without --from, --to and --layer.");
    const double timeout_s = watch_.callbacks.timeout_s;
    if (!(watch_.interval_s >= 0.05 && watch_.interval_s <= 3600))
      return absl::InvalidArgumentError("--interval takes 0.05 to 3600 seconds.");
    if (!(timeout_s >= 0.1 && timeout_s <= 86400) || !(pause_s_ >= 0 && pause_s_ <= 1e7))
      return absl::InvalidArgumentError("--callback-timeout takes 0.1 to 86400 seconds, --pause 0 to 10000000.");
    if (!watch_.callbacks.webhook.empty())
      GPUMEM_RETURN_IF_ERROR(CheckWebhook(watch_.callbacks.webhook, watch_.callbacks.hosts));
    if (!signal_.empty()) {
      GPUMEM_ASSIGN_OR_RETURN(watch_.callbacks.signal, SignalOf(signal_));
    }
    watch_.place = place;
    watch_.device = trace_.device;
    watch_.json = trace_.json;
    watch_.marks = !no_marks_;
    watch_.alarm.pause_ns = static_cast<uint64_t>(pause_s_ * 1e9);
    watch_.alarm.least = risk_ == "critical" ? RiskLevel::kCritical
                         : risk_ == "high"   ? RiskLevel::kHigh
                                             : RiskLevel::kMedium;
    return absl::OkStatus();
  }

  absl::StatusOr<int> Watch(const std::string& place, Console* console) {
    GPUMEM_RETURN_IF_ERROR(ReadWatchFlags(place));
    ForecastWatch watch(watch_, console);
    GPUMEM_ASSIGN_OR_RETURN(const WatchTotals totals, watch.Run());
    return check_ && totals.warnings != 0 ? kExitCheckFailed : kExitFine;
  }

  TraceOptions trace_;
  bool check_ = false, watches_ = false, no_marks_ = false;
  WatchSettings watch_;
  std::string risk_, signal_;
  double pause_s_ = 600;
};

}  // namespace

std::unique_ptr<Command> MakeForecastCommand() { return std::make_unique<ForecastCommand>(); }

}  // namespace gpumem

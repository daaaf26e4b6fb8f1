// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "answers/explain/explain.h"
#include "answers/report/peak_without.h"
#include "answers/report/trace_answer.h"
#include "answers/report/verdict.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/what_if.h"
#include "cli/trace_options.h"
#include "ledger/load/findings.h"
#include "ledger/load/moment.h"
#include "render/draw.h"

namespace gpumem {
namespace {

class ExplainCommand final : public Command {
 public:
  absl::string_view name() const override { return "explain"; }
  CommandPlace place() const override { return {CommandGroup::kLook, 3}; }
  absl::string_view summary() const override { return "checklists: out of memory, leaks, fragmentation, the peak"; }
  absl::string_view arguments() const override { return "[FLAGS] [oom|leak|fragmentation|peak] [FILE|DIR]"; }
  absl::string_view help() const override {
    return R"(Asks of this trace what people check by hand when GPU memory hurts (docs/explain.md): what was checked, what
was found with its numbers, what to do, and how many bytes that saves. A saving is exact, measured by replay,
at most (these bytes go; another moment may be nearly as high), by arithmetic, an estimate, or "not known"; it is
never a guess. Where space is free inside PyTorch's segments, or a request failed, the recorded requests are run
through an installed PyTorch's own allocator with other settings, which takes some seconds. What this trace cannot
tell is listed as not known. Without a topic: all four lists.

  gpumemshim explain                     the newest trace here
  gpumemshim explain oom run.gmtrace     why it ran out of memory
  gpumemshim explain --full              also the checks that found nothing
  gpumemshim explain --no-replay         at once, without other settings
  gpumemshim explain leak --json | jq '.checks[] | select(.outcome == "found")'
)";
  }
  size_t most_arguments() const override { return 2; }

  void AddFlags(Flags* flags) override {
    trace_.AddFlags(flags);
    trace_.AddSourceFlag(flags);
    flags_.AddFlags(flags);
    what_if_.AddFlag(flags);
    flags->Add("--full", &full_, "also the checks that found nothing");
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    std::vector<std::string> places = arguments;
    std::vector<CheckTopic> topics;
    if (const auto topic = places.empty() ? std::nullopt : CheckTopicNamed(places[0])) {
      topics = {*topic};
      places.erase(places.begin());
    }
    if (places.size() > 1)
      return absl::InvalidArgumentError(
          absl::StrCat("unknown checklist \"", places[0], "\": it is oom, leak, fragmentation or peak"));
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(trace_, places, console));
    AttributionRequest request;
    request.moments = {ParseMoment("peak", *loaded)};
    request.steps = true;
    request.modules = true;  // and with them the model's parameters
    GPUMEM_ASSIGN_OR_RETURN(const LoadedFindings findings,
                            LoadFindings(std::move(request), flags_.rules, loaded.get()));
    const DeviceAnalysis* const device = DeviceOfVerdict(loaded->input);
    std::optional<WhatIfAnswer> what_if;
    AskWhatIf(topics, places, loaded.get(), &what_if, console);
    const bool counts = device != nullptr && (IsAsked(CheckTopic::kPeak, topics) || IsAsked(CheckTopic::kOom, topics));
    GPUMEM_ASSIGN_OR_RETURN(const auto without, PeakWithout::Count(loaded.get(), counts ? device : nullptr,
                                                                   counts ? LargestLine(*device, loaded->input) : ""));
    const ExplainSubject subject{&loaded->input, device, &loaded->stacks.objects(),
                                 what_if.has_value() ? &*what_if : nullptr};
    const Explanation explanation = Explain(subject, topics);
    Document answer = TraceAnswer("explain", loaded->input);
    answer.Append(ExplanationAnswer(explanation, full_));
    EndWithNotes(loaded->input, &answer);
    console->Print(trace_.json ? ToJson(answer) : ToText(answer, console->out_style()));
    return ExitCodeOf(*loaded);
  }

 private:
  static bool IsAsked(CheckTopic topic, const std::vector<CheckTopic>& topics) {
    return topics.empty() || std::find(topics.begin(), topics.end(), topic) != topics.end();
  }

  // Where a request failed that can be replayed, up to it; else where there is something to gain.
  void AskWhatIf(const std::vector<CheckTopic>& topics, const std::vector<std::string>& places, LoadedTrace* loaded,
                 std::optional<WhatIfAnswer>* answer, Console* console) const {
    const bool wants_settings = IsAsked(CheckTopic::kFragmentation, topics);
    const OomEvent* const failure =
        wants_settings || IsAsked(CheckTopic::kOom, topics) ? ReplayableFailure(loaded->analysis) : nullptr;
    if (failure == nullptr) {
      if (wants_settings) what_if_.AskOfRun(places, UINT64_MAX, loaded, answer, console);
      return;
    }
    *answer = what_if_.Ask(places, {{}, failure->device, failure}, console);
    if (answer->has_value()) TakeFit(*failure, &**answer, &loaded->analysis);
  }

  WhatIfFlag what_if_;
  TraceOptions trace_;
  AttributionFlags flags_;
  bool full_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeExplainCommand() { return std::make_unique<ExplainCommand>(); }

}  // namespace gpumem

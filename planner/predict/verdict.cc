// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/verdict.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"

namespace gpumem::plan {
namespace {

constexpr uint64_t kLeastDoubt = 1 << 20;  // what changes less is no doubt
constexpr double kClose = 0.03;            // of the device: nearer to it than that is too close to say

class Assessor {
 public:
  explicit Assessor(const Forecast& forecast) : forecast_(forecast) {}

  Assessment Make() {
    if (!forecast_.answered()) return {};
    assessment_.likely = forecast_.need();
    if (!IsCutShort(forecast_.end)) {
      AddLaterSteps();
      AddReads();
      AddRuns();
      AddFailedRuns();
      AddProcesses();
    }
    AddManaged();
    AddLostEvents();
    AddContext();
    AddSearch();
    AddUpEnds();
    assessment_.verdict = Decide();
    return std::move(assessment_);
  }

 private:
  void Add(Doubt doubt) {
    if (!doubt.bounded || doubt.less >= kLeastDoubt || doubt.more >= kLeastDoubt)
      assessment_.doubts.push_back(std::move(doubt));
  }

  // Between what is likely and a run that was otherwise in one thing.
  void AddRun(Doubt::Kind kind, const std::optional<RunPeaks>& other, const char* what, const std::string& settle) {
    AddRuns(kind, other, other, what, settle);
  }

  void AddRuns(Doubt::Kind kind, const std::optional<RunPeaks>& most, const std::optional<RunPeaks>& least,
               const char* what, const std::string& settle) {
    if (!most.has_value()) return;
    const uint64_t likely = forecast_.need(), need = most->need(), low = least.value_or(*most).need();
    Add({kind, what, "", settle, likely - std::min(likely, low), need - std::min(likely, need), true});
  }

  void AddLaterSteps() {
    if (forecast_.end != RunEnd::kStable || forecast_.steps_given) return;
    const ProcessResult& reported = forecast_.processes.front().reported;
    const uint64_t steps = reported.steps;
    assessment_.steps_differ = reported.steps_differ;
    Add({Doubt::Kind::kLaterSteps,
         reported.steps_differ
             ? absl::StrCat("its steps ask for different amounts, and the program was stopped after step ", steps)
             : absl::StrCat("the program was stopped after step ", steps),
         absl::StrCat("something after step ", steps, " needs more, such as a longer batch or an evaluation"),
         "--steps all runs the whole program, --steps N says that N steps are meant", 0, 0, false});
  }

  // Where values decide and the run with others did not get through.
  void AddReads() {
    const std::string& sites = forecast_.other_values_failed;
    if (AddNoValues() || sites.empty()) return;
    const std::string path = sites.substr(0, sites.find_first_of(" ,"));
    const std::string first = path.substr(path.rfind('/') + 1);  // pins go by the file's name
    const std::string& ended = forecast_.other_values_ended;
    Add({Doubt::Kind::kValues,
         absl::StrCat("sizes or branches depend on values that are not computed, at ", sites,
                      ended.empty() ? "" : absl::StrCat("; ", ended)),
         absl::StrCat("a value is another one at ", sites), absl::StrCat("--pin '", first, "=VALUE'"), 0, 0, false});
  }

  // Where nothing was computed at all, whatever was read may be another value. True: it is so.
  bool AddNoValues() {
    const auto failed = std::find_if(forecast_.processes.begin(), forecast_.processes.end(),
                                     [](const PlannedProcess& one) { return !one.reported.values_failed.empty(); });
    if (failed == forecast_.processes.end() || forecast_.reads.empty()) return false;
    Add({Doubt::Kind::kValues,
         absl::StrCat("values that decide could not be computed (", failed->reported.values_failed,
                      "), and count as 0; they were read at ", forecast_.reads.front().site),
         "a value that was not computed decides otherwise",
         "PyTorch 2.9 or newer, and all parts of one build of gpumemshim", 0, 0, false});
    return true;
  }

  // One run on a GPU writes a row for each common shape; until then cuDNN can be held to less.
  std::string SettleWorkspaces() const {
    uint64_t convolutions = 0;
    std::vector<std::string> counts;
    for (const WorkspaceUse& use : forecast_.workspaces()) {
      const uint64_t open = use.unknown + use.lawful;
      if (open == 0) continue;
      if (use.library == "cuDNN") convolutions = open;
      counts.push_back(absl::StrCat(use.library, " ", open));
    }
    return absl::StrCat("one scripts/gpu_check --workspaces on such a GPU measures common shapes (not measured here: ",
                        absl::StrJoin(counts, ", "), ")",
                        convolutions == 0 ? "" : "; CUDNN_CONV_WSCAP_DBG=MIB caps a convolution's, here too");
  }

  void AddRuns() {
    AddRuns(Doubt::Kind::kValues, forecast_.with_other_values, forecast_.least_with_other_values,
            "values that are not computed decide what is run", "--pin 'FILE.py:LINE=VALUE'");
    AddRun(Doubt::Kind::kData, forecast_.with_zero, "how much nonzero, masks and unique find",
           "--data-dependent expect=SHARE");
    AddRun(Doubt::Kind::kData, forecast_.with_worst_routing, "which experts tokens are routed to",
           "--routing balanced says that they are spread evenly");
    AddRun(Doubt::Kind::kValues, forecast_.with_steps_left_out,
           "a step that GradScaler leaves out makes no state of an optimizer", "");
    AddDraws();
    AddWorkspaces();
    AddRun(Doubt::Kind::kStreams, forecast_.with_late_events, "how far kernels lag behind the host", "");
    const std::vector<WorkspaceUse>& uses = forecast_.workspaces();
    const bool no_bound =
        std::any_of(uses.begin(), uses.end(), [](const WorkspaceUse& use) { return use.without_bound > 0; });
    if (no_bound) {
      Add({Doubt::Kind::kWorkspaces, "workspaces of libraries, for which no bound is known",
           absl::StrCat("workspaces of ", absl::StrJoin(UnknownLibraries(uses), ", "), " are large"),
           "scripts/gpu_check --workspaces on such a GPU", 0, 0, false});
    }
  }

  // More room need not mean more reserved: all runs may be on one side.
  void AddWorkspaces() {
    std::vector<RunPeaks> runs = forecast_.with_drawn_workspaces;
    if (forecast_.with_bounds.has_value()) runs.push_back(*forecast_.with_bounds);
    uint64_t less = 0, more = 0;
    for (const RunPeaks& peaks : runs) {
      less = std::max(less, forecast_.need() - std::min(forecast_.need(), peaks.need()));
      more = std::max(more, peaks.need() - std::min(forecast_.need(), peaks.need()));
    }
    if (runs.empty()) return;
    Add({Doubt::Kind::kWorkspaces, "workspaces of libraries, which nobody measured on it", "", SettleWorkspaces(), less,
         more, true});
  }

  // Three draws show how far they differ; others may differ as much again.
  void AddDraws() {
    uint64_t less = 0, more = 0;
    for (const RunPeaks& peaks : forecast_.with_other_draws) {
      less = std::max(less, forecast_.need() - std::min(forecast_.need(), peaks.need()));
      more = std::max(more, peaks.need() - std::min(forecast_.need(), peaks.need()));
    }
    const uint64_t spread = less + more;
    if (spread == 0) return;
    Add({Doubt::Kind::kData, "random numbers that decide are drawn otherwise on a GPU", "", "", less + spread,
         more + spread, true});
  }

  // A run that did not get through says nothing of its end.
  void AddFailedRuns() {
    for (const FailedRun& run : forecast_.failed_runs) {
      const Doubt::Kind kind = run.of == FailedRun::Of::kStreams      ? Doubt::Kind::kStreams
                               : run.of == FailedRun::Of::kWorkspaces ? Doubt::Kind::kWorkspaces
                                                                      : Doubt::Kind::kData;
      Add({kind, absl::StrCat("the run ", run.what, " ", run.how, ", so that end is open"),
           absl::StrCat("it needs more ", run.what), "", 0, 0, false});
    }
  }

  void AddProcesses() {
    const SharedDevice* const fullest = forecast_.fullest();
    if (fullest == nullptr || fullest->processes.size() < 2) return;
    uint64_t alone = 0;
    for (const size_t process : fullest->processes) alone = std::max(alone, forecast_.processes[process].peaks.process);
    Add({Doubt::Kind::kProcesses,
         absl::StrCat(fullest->processes.size(), " processes share GPU ", fullest->device,
                      "; on a GPU their peaks may meet otherwise"),
         "", "",
         // A run with no more memory than there is has them meet as well.
         forecast_.fits_when_tight == false ? 0 : fullest->in_time - std::min(fullest->in_time, alone),
         fullest->at_once - std::min(fullest->at_once, fullest->in_time), true});
  }

  void AddManaged() {
    const uint64_t managed = forecast_.managed();
    if (managed == 0) return;
    Add({Doubt::Kind::kManaged, "managed memory counts as if all of it lay on the device", "", "", managed, 0, true});
  }

  void AddLostEvents() {
    const bool is_exact = std::all_of(forecast_.processes.begin(), forecast_.processes.end(),
                                      [](const PlannedProcess& one) { return one.peaks.is_exact; });
    if (is_exact) return;
    Add({Doubt::Kind::kLostEvents, "events of the run were lost, so its peak is the least that it was",
         "the peak was higher than what was recorded", "a larger GPUMEMSHIM_RING_SIZE", 0, 0, false});
  }

  // Half of a guess and twice as much; those of other GPUs of a capability differ by less. How much code is loaded
  // depends on the program: by 25 MiB in five programs on an H200 (bench/results/2026-11-26-h200.md).
  void AddContext() {
    const KnownSize& context = forecast_.processes.front().reported.context;
    const SharedDevice* const fullest = forecast_.fullest();
    const uint64_t processes = fullest == nullptr ? 1 : std::max<size_t>(1, fullest->processes.size());
    if (context.known == "nothing") {
      Add({Doubt::Kind::kContext, "the size of CUDA's context is a guess", "", "", processes * context.bytes / 2,
           processes * context.bytes, true});
    } else if (context.known == "similar") {
      Add({Doubt::Kind::kContext, "the size of CUDA's context is another GPU's", "", "", processes * context.bytes / 8,
           processes * context.bytes / 8, true});
    } else if (context.known == "measured") {
      Add({Doubt::Kind::kContext, "how much code is loaded into CUDA's context varies", "", "",
           processes * context.bytes / 16, processes * context.bytes / 16, true});
    }
  }

  // It takes what is free and goes on where it gets less, so it never decides whether a program fits.
  void AddSearch() {
    const std::vector<WorkspaceUse>& uses = forecast_.workspaces();
    const bool has_cudnn =
        std::any_of(uses.begin(), uses.end(), [](const WorkspaceUse& use) { return use.library == "cuDNN"; });
    uint64_t high = assessment_.likely;
    for (const Doubt& doubt : assessment_.doubts) high += doubt.more;
    if (!forecast_.processes.front().reported.benchmark || !has_cudnn || high >= forecast_.capacity()) return;
    Add({Doubt::Kind::kWorkspaces,
         "cudnn.benchmark is on: where a shape is met first, cuDNN tries algorithms with up to all that is free", "",
         "torch.backends.cudnn.benchmark = False", 0, forecast_.capacity() - high, true});
  }

  void AddUpEnds() {
    uint64_t less = 0, more = 0;
    for (const Doubt& doubt : assessment_.doubts) {
      less += doubt.less;
      more += doubt.more;
    }
    if (const std::optional<RunPeaks>& tight = forecast_.when_tight; tight.has_value()) {
      // It ran in what there is, whatever it would have liked.
      assessment_.likely = tight->need();
      more = std::min(more, forecast_.capacity() - std::min(forecast_.capacity(), assessment_.likely));
    }
    // A process that exists has some memory.
    const uint64_t least = std::min(assessment_.likely, forecast_.peaks().reserved + forecast_.peaks().elsewhere);
    assessment_.low = assessment_.likely - std::min(assessment_.likely, less);
    if (less > 0 && assessment_.doubts.size() == 1 && assessment_.doubts.front().kind == Doubt::Kind::kContext)
      assessment_.low = std::max(assessment_.low, least);
    assessment_.high = assessment_.likely + more;
    std::stable_sort(assessment_.doubts.begin(), assessment_.doubts.end(), [](const Doubt& a, const Doubt& b) {
      if (a.bounded != b.bounded) return !a.bounded;
      return a.less + a.more > b.less + b.more;
    });
  }

  // PyTorch gives cached memory back before it gives up; what is allocated it cannot.
  bool MayFitTight() const {
    const RunPeaks& peaks = forecast_.peaks();
    return forecast_.tight_is_open && peaks.allocated + peaks.context + peaks.elsewhere <= forecast_.capacity();
  }

  Verdict Decide() const {
    const uint64_t capacity = forecast_.capacity();
    if (IsCutShort(forecast_.end)) return assessment_.low > capacity ? Verdict::kDoesNotFit : Verdict::kUnknown;
    if (forecast_.when_tight.has_value()) {
      if (!forecast_.tight_with_room) return Verdict::kTooClose;
      return assessment_.bounded() ? Verdict::kFits : Verdict::kFitsUnless;
    }
    // Where a value may be another one, what the values tried want is no lower bound either.
    if (assessment_.low > capacity) {
      if (values_are_open()) return Verdict::kUnknown;
      return MayFitTight() ? Verdict::kTooClose : Verdict::kDoesNotFit;
    }
    if (assessment_.high > capacity && !forecast_.tight_with_room) {
      // Far from the device's size it fits but for what is named.
      const bool is_close = static_cast<double>(assessment_.likely) > (1 - kClose) * static_cast<double>(capacity);
      return is_close ? Verdict::kTooClose : Verdict::kFitsUnless;
    }
    return assessment_.bounded() ? Verdict::kFits : Verdict::kFitsUnless;
  }

  bool values_are_open() const {
    return std::any_of(assessment_.doubts.begin(), assessment_.doubts.end(), [](const Doubt& doubt) {
      return !doubt.bounded && (doubt.kind == Doubt::Kind::kValues || doubt.kind == Doubt::Kind::kData);
    });
  }

  const Forecast& forecast_;
  Assessment assessment_;
};

}  // namespace

bool Assessment::bounded() const {
  return std::all_of(doubts.begin(), doubts.end(), [](const Doubt& doubt) { return doubt.bounded; });
}

bool Assessment::has_upper() const {
  return std::all_of(doubts.begin(), doubts.end(), [this](const Doubt& doubt) {
    return doubt.bounded || (doubt.kind == Doubt::Kind::kLaterSteps && !steps_differ);
  });
}

Assessment Assess(const Forecast& forecast) { return Assessor(forecast).Make(); }

absl::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFits:
      return "fits";
    case Verdict::kFitsUnless:
      return "fits_unless";
    case Verdict::kTooClose:
      return "too_close";
    case Verdict::kDoesNotFit:
      return "does_not_fit";
    case Verdict::kUnknown:
      return "unknown";
  }
  return "";
}

absl::string_view DoubtName(Doubt::Kind kind) {
  switch (kind) {
    case Doubt::Kind::kLaterSteps:
      return "later_steps";
    case Doubt::Kind::kValues:
      return "values";
    case Doubt::Kind::kData:
      return "data";
    case Doubt::Kind::kWorkspaces:
      return "workspaces";
    case Doubt::Kind::kContext:
      return "context";
    case Doubt::Kind::kStreams:
      return "streams";
    case Doubt::Kind::kProcesses:
      return "processes";
    case Doubt::Kind::kManaged:
      return "managed";
    case Doubt::Kind::kLostEvents:
      return "lost_events";
  }
  return "";
}

std::string RangeText(const Assessment& assessment) {
  const std::string low = FormatBytes(assessment.low), high = FormatBytes(assessment.high),
                    likely = FormatBytes(assessment.likely);
  if (!assessment.has_upper()) return absl::StrCat("at least ", low, " with the values tried, no upper bound");
  if (low == high) return likely;
  return absl::StrCat(low, " to ", high, low == likely || high == likely ? "" : absl::StrCat(", likely ", likely));
}

}  // namespace gpumem::plan

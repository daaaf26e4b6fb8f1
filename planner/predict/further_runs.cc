// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Runs after the first, each otherwise in one thing that nobody knows: what data find, which random numbers are drawn,
// what a value is, how late kernels are, how large workspaces. Their peaks are the ends of the forecast's range.

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/predict/forecaster.h"
#include "planner/predict/verdict.h"

namespace gpumem::plan {
namespace {

constexpr size_t kMostPlaces = 4;  // that are tried one by one
constexpr size_t kMostComparisons = 4;
constexpr int kOtherDraws = 2;

bool MayDecide(const HostRead& read) { return read.kind == HostReadKind::kBranch || read.kind == HostReadKind::kValue; }

std::vector<std::string> SitesThatDecide(const std::vector<HostRead>& reads) {
  std::vector<std::string> sites;
  for (const HostRead& read : reads) {
    if (MayDecide(read) && std::find(sites.begin(), sites.end(), read.site) == sites.end()) sites.push_back(read.site);
  }
  return sites;
}

// "train.py:12, train.py:40 and 3 more".
std::string SitesOf(const std::vector<HostRead>& reads) {
  constexpr size_t kMost = 3;
  std::vector<std::string> sites = SitesThatDecide(reads);
  const size_t more = sites.size() - std::min(sites.size(), kMost);
  sites.resize(std::min(sites.size(), kMost));
  return absl::StrCat(absl::StrJoin(sites, ", "), more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

// "train.py:12" of "src/train.py:12 main".
std::string LineOf(const std::string& site) {
  const std::string path = site.substr(0, site.find_first_of(" ,"));
  return path.substr(path.rfind('/') + 1);
}

uint64_t Sum(const PlannedRun& run, uint64_t ProcessResult::*member) {
  uint64_t sum = 0;
  for (const PlannedProcess& process : run.processes) sum += process.reported.*member;
  return sum;
}

std::string FailureText(const PlannedRun& run) {
  if (run.had_no_time) return "had no time left (--timeout)";
  if (run.end == RunEnd::kTimedOut) return "was ended when its time was up";
  if (run.end == RunEnd::kSpins) return absl::StrCat("waits for a value at ", StuckPlace(run));
  for (const ProcessResult& process : run.outcome.processes) {
    if (process.failed_at.empty()) continue;
    return absl::StrCat("failed at ", std::filesystem::path(process.failed_at).filename().string(), " (",
                        process.failed_by, ")");
  }
  return run.exit_code == 0 ? "used no CUDA" : absl::StrCat("failed with exit code ", run.exit_code);
}

bool AnOperatorRefused(const PlannedRun& run) {
  return std::any_of(run.outcome.processes.begin(), run.outcome.processes.end(),
                     [](const ProcessResult& process) { return process.operator_refused; });
}

}  // namespace

absl::Status Forecaster::LookAgain(const PlannedRun& run, bool policy_given) {
  if (!Succeeded(run)) return TryRefused(run);
  if (!policy_given) GPUMEM_RETURN_IF_ERROR(TryData(run));
  if (run.processes.front().reported.event_queries > 0) {
    RunRequest late = chosen_;
    late.late_events = true;
    GPUMEM_ASSIGN_OR_RETURN(forecast_.with_late_events,
                            PeaksWith(late, FailedRun::Of::kStreams, "where kernels lag behind"));
  }
  if (chosen_.workspaces == "measured" && HasBounds(forecast_.workspaces())) GPUMEM_RETURN_IF_ERROR(TryWorkspaces());
  if (chosen_.values == RunRequest::Values::kComputed) {
    GPUMEM_RETURN_IF_ERROR(TryOtherDraws(run));
    GPUMEM_RETURN_IF_ERROR(TryRouting(run));
    GPUMEM_RETURN_IF_ERROR(TryLeftOut(run));
    GPUMEM_RETURN_IF_ERROR(TryOtherValues(run));
  }
  if (forecast_.need() > forecast_.capacity()) return TryTight();
  return TryUpperEnd();
}

// All at their upper ends, and some at one of their ends: reserved memory need not grow with what is asked for, and no
// GPU has all of them at an end.
absl::Status Forecaster::TryWorkspaces() {
  RunRequest other = chosen_;
  other.workspaces = "bound";
  GPUMEM_ASSIGN_OR_RETURN(forecast_.with_bounds,
                          PeaksWith(other, FailedRun::Of::kWorkspaces, "with workspaces as large as they can be"));
  const std::vector<WorkspaceUse>& uses = forecast_.workspaces();
  if (std::none_of(uses.begin(), uses.end(), [](const WorkspaceUse& use) { return use.lawful > 0; }))
    return absl::OkStatus();
  for (int draw = 1; draw <= kOtherDraws; ++draw) {
    other.workspaces = absl::StrCat("draw:", draw);
    GPUMEM_ASSIGN_OR_RETURN(const std::optional<RunPeaks> peaks,
                            PeaksWith(other, FailedRun::Of::kWorkspaces,
                                      absl::StrCat("with some workspaces smaller or larger (", draw, ")")));
    if (peaks.has_value()) forecast_.with_drawn_workspaces.push_back(*peaks);
  }
  return absl::OkStatus();
}

// Where something is counted that nobody knows. What follows from random numbers is drawn, not assumed.
absl::Status Forecaster::TryData(const PlannedRun& run) {
  const bool data_decide = std::any_of(run.reads.begin(), run.reads.end(),
                                       [](const HostRead& read) { return read.kind == HostReadKind::kShape; });
  const bool all_drawn = Sum(run, &ProcessResult::drawn_counts) > 0 && Sum(run, &ProcessResult::unknown_counts) == 0;
  if (!data_decide || all_drawn) return absl::OkStatus();
  RunRequest lower = chosen_;
  lower.data_dependent = "zero";
  GPUMEM_ASSIGN_OR_RETURN(forecast_.with_zero, PeaksWith(lower, FailedRun::Of::kData, "where data find nothing"));
  return SearchOtherEnd();
}

absl::Status Forecaster::TryOtherDraws(const PlannedRun& run) {
  if (Sum(run, &ProcessResult::drawn_counts) + Sum(run, &ProcessResult::drawn_reads) == 0) return absl::OkStatus();
  for (int draw = 1; draw <= kOtherDraws; ++draw) {
    RunRequest other = chosen_;
    other.draw = draw;
    GPUMEM_ASSIGN_OR_RETURN(
        const std::optional<RunPeaks> peaks,
        PeaksWith(other, FailedRun::Of::kDraws, absl::StrCat("with other random numbers (", draw, ")")));
    if (peaks.has_value()) forecast_.with_other_draws.push_back(*peaks);
  }
  return absl::OkStatus();
}

absl::Status Forecaster::TryRouting(const PlannedRun& run) {
  if (Sum(run, &ProcessResult::routed) == 0) return absl::OkStatus();
  RunRequest worst = chosen_;
  worst.routing = "worst";
  GPUMEM_ASSIGN_OR_RETURN(forecast_.with_worst_routing,
                          PeaksWith(worst, FailedRun::Of::kData, "where all tokens go to the same experts"));
  return absl::OkStatus();
}

// An optimizer whose steps are left out has no state yet: its run needs less, so where there is none nothing is open
// above.
absl::Status Forecaster::TryLeftOut(const PlannedRun& run) {
  if (Sum(run, &ProcessResult::scaler_reads) == 0) return absl::OkStatus();
  RunRequest left_out = chosen_;
  left_out.values = RunRequest::Values::kLeftOut;
  GPUMEM_ASSIGN_OR_RETURN(const PlannedRun found, Further(left_out, "where GradScaler leaves steps out"));
  if (Succeeded(found)) forecast_.with_steps_left_out = found.processes.front().peaks;
  return absl::OkStatus();
}

// What a program does if each number that nobody computed is another one. Where it fails over that it ends there, and
// needs no more.
absl::Status Forecaster::TryOtherValues(const PlannedRun& run) {
  const uint64_t found_true = Sum(run, &ProcessResult::unknown_true),
                 found_false = Sum(run, &ProcessResult::unknown_false),
                 found_values = Sum(run, &ProcessResult::unknown_values);
  if (found_true + found_false + found_values == 0) return absl::OkStatus();
  GPUMEM_RETURN_IF_ERROR(TryValues(RunRequest::Values::kOther, "", "where values are others", run));
  if ((found_true > 0 && found_false > 0) || !comparisons_.empty()) {
    // A loop that ends once a condition was false three times ends soon both ways; not where it always is true.
    GPUMEM_RETURN_IF_ERROR(TryValues(RunRequest::Values::kAllTrue, "", "where conditions hold", run));
    GPUMEM_RETURN_IF_ERROR(TryValues(RunRequest::Values::kAllFalse, "", "where conditions do not hold", run));
  }
  GPUMEM_RETURN_IF_ERROR(TryEachComparison(run));
  return TryEachPlace(run);
}

absl::Status Forecaster::TryValues(RunRequest::Values values, const std::string& at, const std::string& what,
                                   const PlannedRun& run) {
  RunRequest other = chosen_;
  other.values = values;
  other.at = at;
  GPUMEM_ASSIGN_OR_RETURN(const PlannedRun found, Further(other, what));
  TakeOtherValues(found, run, what);
  return absl::OkStatus();
}

absl::Status Forecaster::TryEachComparison(const PlannedRun& run) {
  const std::vector<std::string> places = comparisons_;  // further runs may meet more
  if (places.size() < 2) return absl::OkStatus();
  for (size_t i = 0; i < std::min(places.size(), kMostComparisons); ++i) {
    const std::string what =
        absl::StrCat("where the comparison at ", places[i].substr(0, places[i].find('#')), " goes the other way");
    GPUMEM_RETURN_IF_ERROR(TryValues(RunRequest::Values::kOther, places[i], what, run));
  }
  if (comparisons_.size() > kMostComparisons) forecast_.other_values_failed = SitesOf(run.reads);
  return absl::OkStatus();
}

// Two lines that decide may each undo what the other does. Where none of them changed anything together, none is tried
// alone.
absl::Status Forecaster::TryEachPlace(const PlannedRun& run) {
  const std::vector<std::string> sites = SitesThatDecide(run.reads);
  const auto differs = [this](const std::optional<RunPeaks>& peaks) {
    return peaks.has_value() &&
           (peaks->need() > forecast_.need() + (1 << 20) || peaks->need() + (1 << 20) < forecast_.need());
  };
  if (sites.size() < 2 || !(differs(forecast_.with_other_values) || differs(forecast_.least_with_other_values)))
    return absl::OkStatus();
  if (sites.size() > kMostPlaces) forecast_.other_values_failed = SitesOf(run.reads);
  for (size_t i = 0; i < std::min(sites.size(), kMostPlaces); ++i) {
    const std::string line = LineOf(sites[i]);
    GPUMEM_RETURN_IF_ERROR(
        TryValues(RunRequest::Values::kOther, line, absl::StrCat("where values are others at ", line), run));
  }
  return absl::OkStatus();
}

void Forecaster::TakeOtherValues(const PlannedRun& found, const PlannedRun& run, const std::string& what) {
  const bool failed = !found.answered() || found.end == RunEnd::kTimedOut || found.end == RunEnd::kSpins;
  if (failed || !found.processes.front().reported.values_failed.empty()) {
    forecast_.other_values_failed = SitesOf(run.reads);
    forecast_.other_values_ended = absl::StrCat("the run ", what, " ", FailureText(found));
    return;
  }
  for (const PlannedProcess& process : found.processes) TakeComparisons(process.reported);
  const RunPeaks& peaks = found.processes.front().peaks;
  if (found.end != RunEnd::kFailed || peaks.need() > forecast_.need()) {
    std::optional<RunPeaks>&most = forecast_.with_other_values, &least = forecast_.least_with_other_values;
    if (!most.has_value() || peaks.need() > most->need()) most = peaks;
    if (!least.has_value() || peaks.need() < least->need()) least = peaks;
  }
  if (found.end == RunEnd::kFailed && AnOperatorRefused(found)) return;  // a value that cannot be
  // One other whole number is not a bound of what numbers may ask for.
  const uint64_t change = std::max(peaks.need(), forecast_.need()) - std::min(peaks.need(), forecast_.need());
  if (Sum(found, &ProcessResult::other_integers) > 0 && change > forecast_.need() / 1000)
    forecast_.other_values_failed = SitesOf(run.reads);
}

void Forecaster::TakeComparisons(const ProcessResult& reported) {
  for (const auto& [place, count] : reported.compared) {
    if (std::find(comparisons_.begin(), comparisons_.end(), place) == comparisons_.end()) comparisons_.push_back(place);
  }
  const std::string open =
      reported.compared_open.empty() && reported.table_refused ? LineOf(reported.failed_at) : reported.compared_open;
  if (!open.empty() && forecast_.other_values_failed.empty()) forecast_.other_values_failed = open;
}

absl::StatusOr<PlannedRun> Forecaster::Further(const RunRequest& request, const std::string& what) {
  GPUMEM_ASSIGN_OR_RETURN(PlannedRun run, planner_->RunAgain(request, what));
  const bool may_mind = run.outcome.forked && !run.answered() && run.end != RunEnd::kTimedOut;
  return may_mind ? planner_->Run(request, absl::StrCat(what, ", afresh")) : absl::StatusOr<PlannedRun>(std::move(run));
}

absl::StatusOr<std::optional<RunPeaks>> Forecaster::PeaksWith(const RunRequest& changed, FailedRun::Of of,
                                                              const std::string& what) {
  GPUMEM_ASSIGN_OR_RETURN(PlannedRun run, Further(changed, what));
  // The first run got through, so this one may fail only because it was forked.
  if (run.outcome.forked && run.end == RunEnd::kFailed) {
    GPUMEM_ASSIGN_OR_RETURN(run, planner_->Run(changed, absl::StrCat(what, ", afresh")));
  }
  if (Succeeded(run)) return std::optional<RunPeaks>(run.processes.front().peaks);
  forecast_.failed_runs.push_back({of, what, FailureText(run)});
  return std::nullopt;
}

}  // namespace gpumem::plan

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/forecast/forecaster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/secrets.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

absl::Status Put(const Axis& axis, int64_t value, RunRequest* run) {
  GPUMEM_ASSIGN_OR_RETURN(const VariedCommand varied, Substitute(axis, value, {run->command, run->environment}));
  run->command = varied.command;
  run->environment = varied.environment;
  return absl::OkStatus();
}

}  // namespace

Forecaster::Forecaster(RunRequest request, std::vector<Axis> axes, Planner* planner)
    : request_(std::move(request)), axes_(std::move(axes)), planner_(planner), chosen_(request_) {
  forecast_.device = request_.device;
  forecast_.device_count = request_.device_count;
  forecast_.rank = request_.rank;
  forecast_.world_size = request_.world_size;
  forecast_.data_dependent = request_.data_dependent;
  forecast_.timeout_s = request_.timeout_s;
}

absl::StatusOr<PlannedRun> Forecaster::Answer(bool policy_given) {
  if (!axes_.empty()) GPUMEM_RETURN_IF_ERROR(Search(request_, &forecast_.largest));
  forecast_.command = WithoutSecrets(chosen_.command);
  GPUMEM_ASSIGN_OR_RETURN(PlannedRun run, planner_->Run(chosen_, "as it is"));
  forecast_.end = run.end;
  forecast_.exit_code = run.exit_code;
  forecast_.seconds = run.outcome.seconds;
  forecast_.stuck_at = StuckPlace(run);
  forecast_.output = run.outcome.output;
  forecast_.processes = run.processes;
  forecast_.reads = run.reads;
  GPUMEM_RETURN_IF_ERROR(LookAgain(run, policy_given));
  return run;
}

absl::Status Forecaster::LookAgain(const PlannedRun& run, bool policy_given) {
  if (!Succeeded(run)) return absl::OkStatus();
  const bool data_decide = std::any_of(run.reads.begin(), run.reads.end(),
                                       [](const HostRead& read) { return read.kind == HostReadKind::kShape; });
  if (data_decide && !policy_given) {
    RunRequest lower = chosen_;
    lower.data_dependent = "zero";
    GPUMEM_ASSIGN_OR_RETURN(forecast_.with_zero, PeaksWith(lower, "where data find nothing"));
    GPUMEM_RETURN_IF_ERROR(SearchOtherEnd());
  }
  if (run.processes.front().reported.event_queries > 0) {
    RunRequest late = chosen_;
    late.late_events = true;
    GPUMEM_ASSIGN_OR_RETURN(forecast_.with_late_events, PeaksWith(late, "where kernels lag behind"));
  }
  if (chosen_.workspaces == "measured" && HasBounds(forecast_.workspaces())) {
    RunRequest bounded = chosen_;
    bounded.workspaces = "bound";
    GPUMEM_ASSIGN_OR_RETURN(forecast_.with_bounds, PeaksWith(bounded, "with workspaces as large as they can be"));
  }
  if (forecast_.peaks().process > forecast_.capacity()) {
    RunRequest tight = chosen_;
    tight.overcommit = false;
    GPUMEM_ASSIGN_OR_RETURN(const std::optional<RunPeaks> peaks, PeaksWith(tight, "with no more memory than there is"));
    forecast_.fits_when_tight = peaks.has_value();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RunPeaks>> Forecaster::PeaksWith(const RunRequest& changed, const std::string& what) {
  GPUMEM_ASSIGN_OR_RETURN(const PlannedRun run, planner_->Run(changed, what));
  return Succeeded(run) ? std::optional<RunPeaks>(run.processes.front().peaks) : std::nullopt;
}

std::vector<Forecaster::Place> Forecaster::Places() const {
  std::vector<Place> places{{}};
  for (size_t i = 0; i + 1 < axes_.size(); ++i) {
    std::vector<Place> longer;
    for (const Place& place : places) {
      for (const int64_t value : SomeValues(axes_[i])) {
        longer.push_back(place);
        longer.back().emplace_back(axes_[i].name, value);
      }
    }
    places = std::move(longer);
  }
  return places;
}

absl::Status Forecaster::SearchOtherEnd() {
  if (axes_.empty()) return absl::OkStatus();
  RunRequest lower = request_;
  lower.data_dependent = "zero";
  const RunRequest chosen = chosen_;
  GPUMEM_RETURN_IF_ERROR(Search(lower, &forecast_.largest_with_zero));
  chosen_ = chosen;
  return absl::OkStatus();
}

absl::Status Forecaster::Search(const RunRequest& request, Place* largest) {
  forecast_.searched = true;
  for (const Place& place : Places()) GPUMEM_RETURN_IF_ERROR(SearchAt(request, place, largest));
  return absl::OkStatus();
}

absl::Status Forecaster::SearchAt(const RunRequest& request, const Place& place, Place* largest) {
  const Axis& axis = axes_.back();
  RunRequest fixed = request;
  for (size_t i = 0; i < place.size(); ++i) GPUMEM_RETURN_IF_ERROR(Put(axes_[i], place[i].second, &fixed));
  GPUMEM_ASSIGN_OR_RETURN(const Largest found,
                          FindLargest(axis.values, request_.device.memory_bytes(),
                                      [&](int64_t value) { return Measure(fixed, value, place); }));
  const bool is_first = largest->empty();
  GPUMEM_RETURN_IF_ERROR(Put(axis, found.fits.value_or(axis.values.front()), &fixed));
  if (found.fits.has_value() || is_first) chosen_ = fixed;
  if (!found.fits.has_value()) return absl::OkStatus();
  *largest = place;
  largest->emplace_back(axis.name, *found.fits);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Forecaster::Measure(const RunRequest& fixed, int64_t value, const Place& place) {
  RunRequest request = fixed;
  GPUMEM_RETURN_IF_ERROR(Put(axes_.back(), value, &request));
  GPUMEM_ASSIGN_OR_RETURN(const PlannedRun run, planner_->Run(request, absl::StrCat(axes_.back().name, " = ", value)));
  VariedRun varied;
  varied.values = place;
  varied.with_zero = request.data_dependent != request_.data_dependent;
  varied.values.emplace_back(axes_.back().name, value);
  if (run.answered()) varied.peaks = run.processes.front().peaks;
  if (run.end == RunEnd::kTimedOut) varied.note = "its time was up";
  if (run.end == RunEnd::kFailed) varied.note = absl::StrCat("failed with exit code ", run.exit_code);
  if (run.end == RunEnd::kSpins) varied.note = absl::StrCat("waits at ", StuckPlace(run));
  if (!run.answered() && varied.note.empty()) varied.note = "used no CUDA";
  varied.fits = Succeeded(run) && varied.peaks->process <= request.device.memory_bytes();
  forecast_.varied.push_back(varied);
  return Succeeded(run) ? varied.peaks->process : UINT64_MAX;
}

}  // namespace gpumem

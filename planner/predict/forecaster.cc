// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/forecaster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/secrets.h"
#include "base/status_macros.h"
#include "planner/predict/verdict.h"

namespace gpumem::plan {
namespace {

absl::Status Put(const Axis& axis, int64_t value, RunRequest* run) {
  GPUMEM_ASSIGN_OR_RETURN(const VariedCommand varied, Substitute(axis, value, {run->command, run->environment}));
  run->command = varied.command;
  run->environment = varied.environment;
  return absl::OkStatus();
}

}  // namespace

Forecaster::Forecaster(RunRequest request, std::vector<Axis> axes, Planner* planner, bool expects_more)
    : request_(std::move(request)),
      axes_(std::move(axes)),
      expects_more_(expects_more || !axes_.empty()),
      planner_(planner),
      chosen_(request_) {
  forecast_.device = request_.device;
  forecast_.device_count = request_.device_count;
  forecast_.rank = request_.rank;
  forecast_.world_size = request_.world_size;
  forecast_.from_launcher = request_.from_launcher;
  forecast_.data_dependent = request_.data_dependent;
  forecast_.timeout_s = request_.timeout_s;
}

absl::StatusOr<PlannedRun> Forecaster::Answer(bool policy_given) {
  if (axes_.empty()) planner_->EndAfter(request_.timeout_s);  // a search makes many plans: each run has its own time
  if (!axes_.empty()) GPUMEM_RETURN_IF_ERROR(Search(request_, &forecast_.largest));
  forecast_.command = WithoutSecrets(chosen_.command);
  GPUMEM_ASSIGN_OR_RETURN(PlannedRun run, First());
  chosen_.steps = StepsAgain(run);
  Tell(run);
  GPUMEM_RETURN_IF_ERROR(LookAgain(run, policy_given));
  if (!settled_.has_value()) return run;
  Tell(*settled_);  // what the program makes of a device of this size
  return *std::move(settled_);
}

void Forecaster::Tell(const PlannedRun& run) {
  forecast_.end = run.end;
  forecast_.exit_code = run.exit_code;
  forecast_.seconds = run.outcome.seconds;
  forecast_.time = run.time;
  forecast_.stuck_at = StuckPlace(run);
  forecast_.output = run.outcome.output;
  forecast_.processes = run.processes;
  forecast_.reads = run.reads;
  forecast_.shared = run.shared;
}

// A further run must come as far as the peak: to the step that had it, or to the end where it came after the last step.
std::string Forecaster::StepsAgain(const PlannedRun& run) const {
  if (request_.steps != "stable" || run.processes.empty()) return request_.steps;
  uint64_t last_growth = 0;
  for (const PlannedProcess& process : run.processes) {
    last_growth = std::max(last_growth, process.reported.last_growth);
    const bool ends_higher = process.peaks.allocated > process.reported.allocated_in_steps ||
                             process.peaks.reserved > process.reported.reserved_in_steps;
    if (run.end == RunEnd::kEnded && ends_higher) return "all";
  }
  return absl::StrCat("stable:", last_growth);
}

// The run of a search that had the chosen values where that came to its end, or a new one.
absl::StatusOr<PlannedRun> Forecaster::First() {
  const bool was_tried = tried_.has_value() && tried_request_.command == chosen_.command &&
                         tried_request_.environment == chosen_.environment;
  if (was_tried && (tried_->end != RunEnd::kStable || tried_request_.lingers != RunRequest::Lingers::kNo))
    return *std::move(tried_);
  tried_.reset();
  RunRequest first = chosen_;
  first.lingers = RunRequest::Lingers::kYes;
  if (!expects_more_) return planner_->Run(first, "as it is");
  GPUMEM_ASSIGN_OR_RETURN(PlannedRun run, planner_->RunAgain(first, was_tried ? "as it is, for longer" : "as it is"));
  // A program that fails only when forked is run again in a fresh process.
  const bool has_failed = run.end == RunEnd::kFailed || (!run.answered() && run.end != RunEnd::kTimedOut);
  const bool may_mind = run.outcome.forked && has_failed;
  return may_mind ? planner_->Run(first, "as it is, afresh") : absl::StatusOr<PlannedRun>(std::move(run));
}

namespace {

bool GaveUp(const PlannedRun& run) {
  return !Succeeded(run) || std::any_of(run.processes.begin(), run.processes.end(),
                                        [](const PlannedProcess& process) { return process.gave_up; });
}

uint64_t RefusedOf(const PlannedRun& run) {
  uint64_t refused = 0;
  for (const PlannedProcess& process : run.processes) refused += process.refused;
  return refused;
}

}  // namespace

absl::StatusOr<PlannedRun> Forecaster::RunTight(uint64_t left) {
  RunRequest tight = chosen_;
  tight.overcommit = false;
  tight.others_mib = left >> 20;
  if (forecast_.end == RunEnd::kFailed) tight.lingers = RunRequest::Lingers::kYes;  // it is the first that gets through
  return planner_->RunAgain(tight, "with no more memory than there is");
}

// First with as much left free as all that is open may take; then with nothing left.
absl::Status Forecaster::TryTight() {
  const Assessment assessment = Assess(forecast_);
  const uint64_t room = assessment.high - assessment.likely;
  forecast_.fits_when_tight = false;
  forecast_.wanted = forecast_.need();
  for (const uint64_t left : room == 0 ? std::vector<uint64_t>{0} : std::vector<uint64_t>{room, 0}) {
    if (left >= forecast_.capacity()) continue;
    GPUMEM_ASSIGN_OR_RETURN(PlannedRun run, RunTight(left));
    if (run.end == RunEnd::kTimedOut) {
      forecast_.tight_is_open = true;
      forecast_.fits_when_tight.reset();
      break;
    }
    if (GaveUp(run)) continue;
    forecast_.fits_when_tight = true;
    forecast_.tight_with_room = left == room;
    forecast_.when_tight = run.processes.front().peaks;
    forecast_.refused_when_tight = RefusedOf(run);
    for (const PlannedProcess& process : run.processes)
      forecast_.largest_refused = std::max(forecast_.largest_refused, process.largest_refused);
    if (forecast_.refused_when_tight > 0) settled_ = std::move(run);
    break;
  }
  return absl::OkStatus();
}

// A program that asks for more until it is refused may fail only because it was given all that it asked for.
absl::Status Forecaster::TryRefused(const PlannedRun& run) {
  const bool asks_on = run.answered() && run.end == RunEnd::kFailed && RefusedOf(run) > 0;
  return asks_on && forecast_.need() > forecast_.capacity() ? TryTight() : absl::OkStatus();
}

// Where only the upper end is more than there is: PyTorch may give cached memory back then.
absl::Status Forecaster::TryUpperEnd() {
  const Assessment assessment = Assess(forecast_);
  const uint64_t room = assessment.high - assessment.likely;
  if (assessment.high <= forecast_.capacity() || room >= forecast_.capacity()) return absl::OkStatus();
  GPUMEM_ASSIGN_OR_RETURN(const PlannedRun run, RunTight(room));
  if (GaveUp(run) || RefusedOf(run) > 0) return absl::OkStatus();
  forecast_.fits_when_tight = true;
  forecast_.tight_with_room = true;
  return absl::OkStatus();
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

uint64_t Forecaster::Wanted(const PlannedRun& run) const {
  Forecast alone;
  alone.device = forecast_.device;
  alone.steps_given = forecast_.steps_given;
  alone.end = run.end;
  alone.processes = run.processes;
  alone.shared = run.shared;
  const Assessment assessment = Assess(alone);
  return std::max(assessment.high,
                  static_cast<uint64_t>(static_cast<double>(assessment.likely) / (1 - forecast_.margin)));
}

absl::Status Forecaster::SearchAt(const RunRequest& request, const Place& place, Place* largest) {
  const Axis& axis = axes_.back();
  RunRequest fixed = request;
  for (size_t i = 0; i < place.size(); ++i) GPUMEM_RETURN_IF_ERROR(Put(axes_[i], place[i].second, &fixed));
  GPUMEM_ASSIGN_OR_RETURN(const Largest found,
                          FindLargest(axis.values, request_.device.memory_bytes(), [&](int64_t value, bool is_near) {
                            return Measure(fixed, value, place, is_near && place == Places().back());
                          }));
  const bool is_first = largest->empty();
  GPUMEM_RETURN_IF_ERROR(Put(axis, found.fits.value_or(axis.values.front()), &fixed));
  if (found.fits.has_value() || is_first) chosen_ = fixed;
  if (!found.fits.has_value()) return absl::OkStatus();
  *largest = place;
  largest->emplace_back(axis.name, *found.fits);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Forecaster::Measure(const RunRequest& fixed, int64_t value, const Place& place,
                                             bool may_be_chosen) {
  RunRequest request = fixed;
  GPUMEM_RETURN_IF_ERROR(Put(axes_.back(), value, &request));
  VariedRun varied;
  varied.with_zero = request.data_dependent != request_.data_dependent;
  if (may_be_chosen && !varied.with_zero) request.lingers = RunRequest::Lingers::kWhileItFits;
  GPUMEM_ASSIGN_OR_RETURN(PlannedRun run, planner_->RunAgain(request, absl::StrCat(axes_.back().name, " = ", value)));
  varied.values = place;
  varied.values.emplace_back(axes_.back().name, value);
  if (run.answered()) varied.peaks = run.processes.front().peaks;
  if (run.end == RunEnd::kTimedOut) varied.note = "its time was up";
  if (run.end == RunEnd::kFailed) varied.note = absl::StrCat("failed with exit code ", run.exit_code);
  if (run.end == RunEnd::kSpins) varied.note = absl::StrCat("waits at ", StuckPlace(run));
  if (!run.answered() && varied.note.empty()) varied.note = "used no CUDA";
  const uint64_t wanted = Succeeded(run) ? Wanted(run) : UINT64_MAX;
  varied.fits = wanted <= request_.device.memory_bytes();
  varied.wanted = wanted == UINT64_MAX ? 0 : wanted;
  forecast_.varied.push_back(varied);
  if (varied.fits && !varied.with_zero) {
    tried_request_ = request;
    tried_ = std::move(run);
  }
  return wanted;
}

}  // namespace gpumem::plan

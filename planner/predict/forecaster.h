// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Makes a forecast: which runs it takes, and what each of them says. The program runs once with as much memory as it
// likes; further runs are made only where an answer needs them: where the data decide, where it wants more than there
// is, and for --vary.
//
//   Forecaster forecaster(request, axes, &planner, true);
//   absl::StatusOr<PlannedRun> run = forecaster.Answer(is_policy_given);
//   forecaster.forecast().fits()
//
// Failure: InvalidArgument where an axis has no place in the command line; else what Planner fails with.

#ifndef GPUMEM_PLANNER_PREDICT_FORECASTER_H_
#define GPUMEM_PLANNER_PREDICT_FORECASTER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/predict/forecast.h"
#include "planner/predict/planner.h"
#include "planner/predict/vary.h"

namespace gpumem::plan {

class Forecaster {
 public:
  // `expects_more`: there will be runs after that of the answer, so that its imports are worth keeping.
  Forecaster(RunRequest request, std::vector<Axis> axes, Planner* planner, bool expects_more);

  // The run that is reported: the one asked for, or that of the largest values that fit. `policy_given`: what the data
  // are was said, so there is no second run for the other end.
  absl::StatusOr<PlannedRun> Answer(bool policy_given);

  Forecast& forecast() { return forecast_; }
  // What that run was.
  const RunRequest& chosen() const { return chosen_; }

 private:
  using Place = std::vector<std::pair<std::string, int64_t>>;  // a value of each axis but the last

  // Sets chosen_ and `largest`.
  absl::Status Search(const RunRequest& request, Place* largest);
  std::vector<Place> Places() const;
  absl::Status SearchAt(const RunRequest& request, const Place& place, Place* largest);
  // Where data decide: the largest values where they find nothing.
  absl::Status SearchOtherEnd();
  // One try of a search: how large a device it takes. A program that fails needs more than there is.
  absl::StatusOr<uint64_t> Measure(const RunRequest& fixed, int64_t value, const Place& place, bool may_be_chosen);
  // Of another run; where it did not get through there is none, and the forecast says so.
  absl::StatusOr<std::optional<RunPeaks>> PeaksWith(const RunRequest& changed, FailedRun::Of of,
                                                    const std::string& what);
  // A further run; one that fails only because it was forked is made afresh.
  absl::StatusOr<PlannedRun> Further(const RunRequest& request, const std::string& what);
  // How large a device must be for it: as its upper end, and so that --margin is left free beside what is likely.
  uint64_t Wanted(const PlannedRun& run) const;
  absl::StatusOr<PlannedRun> First();
  absl::Status TryTight();
  absl::Status TryUpperEnd();
  absl::Status TryRefused(const PlannedRun& run);
  // With no more memory than there is, of which `left` bytes are somebody else's.
  absl::StatusOr<PlannedRun> RunTight(uint64_t left);
  absl::Status TryData(const PlannedRun& run);
  absl::Status TryWorkspaces();
  absl::Status TryOtherDraws(const PlannedRun& run);
  absl::Status TryOtherValues(const PlannedRun& run);
  absl::Status TryValues(RunRequest::Values values, const std::string& at, const std::string& what,
                         const PlannedRun& run);
  absl::Status TryEachPlace(const PlannedRun& run);
  // Two comparisons may each hide what the other decides: `elif` is met only where `if` does not hold.
  absl::Status TryEachComparison(const PlannedRun& run);
  absl::Status TryRouting(const PlannedRun& run);
  absl::Status TryLeftOut(const PlannedRun& run);
  // What `found`, with other values than `run`, says.
  void TakeOtherValues(const PlannedRun& found, const PlannedRun& run, const std::string& what);
  void TakeComparisons(const ProcessResult& reported);
  // Makes it the run that the forecast is of.
  void Tell(const PlannedRun& run);
  std::string StepsAgain(const PlannedRun& run) const;
  absl::Status LookAgain(const PlannedRun& run, bool policy_given);

  const RunRequest request_;
  const std::vector<Axis> axes_;
  const bool expects_more_;
  Planner* const planner_;
  RunRequest chosen_;
  Forecast forecast_;
  std::vector<std::string> comparisons_;  // where runs with other values compared numbers that nobody computed
  std::optional<PlannedRun> tried_;       // the last run of a search that fits, and what it was
  RunRequest tried_request_;
  std::optional<PlannedRun> settled_;  // of a program that lives on where memory is refused
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_PREDICT_FORECASTER_H_

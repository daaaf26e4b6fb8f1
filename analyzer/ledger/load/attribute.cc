// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/attribute.h"

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "ledger/saved/saved_answers.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

absl::Status ReadRules(const std::string& path, Rules* rules) {
  if (path.empty()) return absl::OkStatus();
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ", in --rules. Give a file of rules (docs/attribution.md)."));
  }
  std::stringstream text;
  text << file.rdbuf();
  const absl::Status added = rules->AddBefore(text.str());
  if (added.ok()) return added;
  return absl::InvalidArgumentError(absl::StrCat(path, ", ", added.message(), ". docs/attribution.md shows rules."));
}

// Where events are missing no step, stage or moment is above the peak that the same trace reports.
void ClampToPeaks(const ReportInput& input, Attribution* attribution) {
  if (input.asked.from_ns != 0 || input.asked.to_ns != UINT64_MAX) return;  // of the window, and these are not
  for (const DeviceAnalysis& device : input.analysis->devices) {
    if (device.device != attribution->device || device.bound == PeakBound::kExact) continue;
    for (AttributedStep& each : attribution->steps) {
      for (StepPoint* point : {&each.step.start, &each.step.peak, &each.step.end}) device.ClampToPeaks(&point->values);
    }
    for (AttributedStage& each : attribution->stages) {
      for (StepPoint* point : {&each.row.start, &each.row.peak, &each.row.end}) device.ClampToPeaks(&point->values);
    }
    for (Moment& moment : attribution->moments) device.ClampToPeaks(&moment.values);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedAttributor>> LoadedAttributor::Make(AttributionRequest request,
                                                                         const std::string& rules_file,
                                                                         LoadedTrace* loaded) {
  const SavedAnswers* const answers = rules_file.empty() ? AnswersOf(loaded) : nullptr;
  if (answers != nullptr) {
    auto made = std::make_unique<LoadedAttributor>();
    made->kept_ = answers->Answer(request, loaded->analysis, loaded->stacks);
    if (made->kept_ != nullptr) return made;
  }
  return MakeReplaying(std::move(request), rules_file, loaded);
}

absl::StatusOr<std::unique_ptr<LoadedAttributor>> LoadedAttributor::MakeReplaying(AttributionRequest request,
                                                                                  const std::string& rules_file,
                                                                                  LoadedTrace* loaded) {
  auto made = std::make_unique<LoadedAttributor>();
  GPUMEM_RETURN_IF_ERROR(ReadRules(rules_file, &made->rules_));
  if (const DeviceAnalysis* const device = LargestDevice(loaded->analysis)) {
    request.device = device->device;
    request.measure = DefaultMeasure(*device);
  }
  made->attributor_.emplace(&loaded->analysis, &loaded->stacks, ResolverOf(loaded), &made->rules_, std::move(request));
  return made;
}

std::unique_ptr<Attribution> LoadedAttributor::Take(LoadedTrace* loaded) {
  if (kept_ == nullptr) kept_ = std::make_unique<Attribution>(attributor_->Take());
  loaded->input.attribution = kept_.get();
  ClampToPeaks(loaded->input, kept_.get());
  return std::move(kept_);
}

absl::StatusOr<std::unique_ptr<Attribution>> AttributeLoaded(AttributionRequest request, const std::string& rules_file,
                                                             LoadedTrace* loaded) {
  GPUMEM_ASSIGN_OR_RETURN(const auto attributor, LoadedAttributor::Make(std::move(request), rules_file, loaded));
  GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {attributor->analysis()}));
  return attributor->Take(loaded);
}

bool SaysWhatFor(const Analysis& analysis) {
  const std::map<std::string, uint64_t>& kinds = analysis.events.by_kind;
  if (ImportInfoOf(analysis.process.settings).has_categories) return true;
  return kinds.count("TENSOR") + kinds.count("SAVED") + kinds.count("OPTIMIZER_STEP") > 0;
}

std::vector<MomentQuery> SnapshotQueries(const Analysis& analysis) {
  constexpr size_t kMax = 100;
  std::vector<MomentQuery> queries;
  for (const MarkEntry& entry : analysis.marks.entries()) {
    if (IsSnapshot(entry)) queries.push_back({MomentQuery::Kind::kMark, entry.time_ns, entry.text});
  }
  if (queries.size() > kMax) queries.erase(queries.begin(), queries.end() - kMax);
  return queries;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/window.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "ledger/load/attribute.h"
#include "ledger/load/moment.h"

namespace gpumem {
namespace {

const StepPoint& PointOf(const StepPoint& start, const StepPoint& end, Edge edge) {
  return edge == Edge::kFrom ? start : end;
}

const StageRow* StageNamed(const std::string& asked, const Attribution& attribution) {
  for (const AttributedStage& each : attribution.stages) {
    const bool is_named = each.row.is_named && absl::EqualsIgnoreCase(each.row.user, asked);
    const bool is_derived = !each.row.is_named && (absl::EqualsIgnoreCase(RunPartTitle(each.row.part), asked) ||
                                                   absl::EqualsIgnoreCase(RunPartName(each.row.part), asked));
    if (is_named || is_derived) return &each.row;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<MomentQuery> NamedMoment(const std::string& asked, LoadedTrace* loaded) {
  const MomentQuery query = ParseMoment(asked, *loaded);
  if (query.kind != MomentQuery::Kind::kMark) return query;
  AttributionRequest request;
  request.stages = true;
  request.moments = {query};
  GPUMEM_ASSIGN_OR_RETURN(const auto attribution, AttributeLoaded(request, "", loaded));
  loaded->input.attribution = nullptr;  // it ends here
  const StageRow* const stage = attribution->moments[0].found ? nullptr : StageNamed(asked, *attribution);
  if (stage == nullptr) return query;
  MomentQuery peak;
  peak.number = stage->peak.event_index;
  return peak;
}

absl::StatusOr<uint64_t> NamedTime(const std::string& asked, Edge edge, LoadedTrace* loaded) {
  const Analysis& analysis = loaded->analysis;
  const ReportInput& input = loaded->input;
  if (asked == "end") return input.Since(analysis.program_end_ns == 0 ? analysis.end_ns : analysis.program_end_ns);
  AttributionRequest request;
  request.steps = request.stages = true;
  request.moments = {ParseMoment(asked, *loaded)};
  const bool is_step = request.moments[0].kind == MomentQuery::Kind::kStep;
  GPUMEM_ASSIGN_OR_RETURN(const auto attribution, AttributeLoaded(request, "", loaded));
  loaded->input.attribution = nullptr;  // it ends here
  for (const AttributedStep& each : attribution->steps) {
    if (is_step && each.step.number == request.moments[0].number)
      return input.Since(PointOf(each.step.start, each.step.end, edge).time_ns);
  }
  if (const StageRow* const stage = StageNamed(asked, *attribution); stage != nullptr)
    return input.Since(PointOf(stage->start, stage->end, edge).time_ns);
  const Moment& moment = attribution->moments[0];
  if (moment.found && !is_step) return input.Since(moment.time_ns);
  return absl::NotFoundError(NoSuchMoment(asked, *loaded).message());
}

}  // namespace gpumem

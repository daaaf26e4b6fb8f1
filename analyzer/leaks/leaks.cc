// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "leaks/leaks.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "attribution/iteration_counter.h"
#include "attribution/label_replay.h"
#include "base/status_macros.h"
#include "leaks/leak_rows.h"
#include "leaks/survival_pass.h"

namespace gpumem {
namespace {

// Behind the header of the section that was analyzed.
absl::StatusOr<TraceReader> OpenSection(const std::string& path) {
  GPUMEM_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
  if (reader.Next() != ItemType::kHeader) return absl::InvalidArgumentError(path + ": " + reader.damage());
  return reader;
}

std::vector<LeakLoop> DescribeLoops(const std::vector<Loop>& loops, const SurvivalPass& pass,
                                    const PlaceOfStack& place_of) {
  std::vector<LeakLoop> described;
  for (size_t i = 0; i < loops.size(); ++i) {
    LeakLoop& loop = described.emplace_back();
    loop.are_steps = loops[i].kind == Loop::Kind::kSteps;
    if (!loop.are_steps) loop.place = place_of(loops[i].stack);
    loop.iterations = pass.IterationsOf(i);
    const auto [begin, end] = pass.AnchorsOf(i);
    if (begin == end) continue;
    loop.from_ns = pass.TimeOf(begin);
    loop.to_ns = pass.TimeOf(end - 1);
  }
  return described;
}

// Growing ones first, then by bytes; the rest makes it one order.
void Sort(std::vector<LeakRow>* rows) {
  std::sort(rows->begin(), rows->end(), [](const LeakRow& a, const LeakRow& b) {
    return std::tie(b.status, b.grown_bytes, a.place.site, a.stack) <
           std::tie(a.status, a.grown_bytes, b.place.site, b.stack);
  });
}

}  // namespace

absl::string_view LeakKindName(LeakKind kind) {
  static constexpr absl::string_view kNames[] = {"memory", "graph", "outside_pytorch", "allocator"};
  return kNames[static_cast<size_t>(kind)];
}

bool LeakFindings::AnyGrows() const {
  for (const LeakDevice& device : devices) {
    for (const LeakRow& row : device.rows) {
      if (row.status == LeakStatus::kGrowing) return true;
    }
  }
  return false;
}

absl::StatusOr<LeakFindings> FindLeaks(const Analysis& analysis, const StackTable& stacks, const FrameResolver& resolve,
                                       const PlaceOfStack& place_of, const LeakRequest& request) {
  const Rules rules;
  StackClassifier classifier(&stacks, &rules, resolve);
  const uint64_t end_ns = std::min(analysis.end_ns, request.to_ns);

  GPUMEM_ASSIGN_OR_RETURN(TraceReader first, OpenSection(analysis.path));
  LabelReplay counting(&first, &stacks.objects(), end_ns);
  IterationCounter counter(request.from_ns, &classifier);
  counting.Run(&counter);
  const std::vector<Loop> loops = counter.Loops();
  LeakFindings findings;
  for (const DeviceAnalysis& device : analysis.devices) findings.devices.push_back({device.device, {}, 0});
  if (loops.empty()) return findings;

  GPUMEM_ASSIGN_OR_RETURN(TraceReader second, OpenSection(analysis.path));
  LabelReplay replay(&second, &stacks.objects(), end_ns);
  SurvivalPass pass(&replay, loops);
  replay.Run(&pass);
  findings.loops = DescribeLoops(loops, pass, place_of);
  LeakRowSources sources{&pass, &classifier, &place_of, &request.source, loops.size(), {}};
  for (const LeakLoop& loop : findings.loops) sources.are_steps.push_back(loop.are_steps);
  for (LeakDevice& device : findings.devices) {
    device.rows = LeakRows(sources, device.device);
    if (request.suppressions != nullptr) {
      device.suppressed = std::erase_if(
          device.rows, [&](const LeakRow& row) { return request.suppressions->Matches(row.place.names); });
    }
    Sort(&device.rows);
  }
  return findings;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/leak_finder.h"

#include <algorithm>
#include <tuple>

#include "ledger/leaks/leak_rows.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// Growing ones first, then by bytes; the rest makes it one order.
void Sort(std::vector<LeakRow>* rows) {
  std::sort(rows->begin(), rows->end(), [](const LeakRow& a, const LeakRow& b) {
    return std::tie(b.status, b.grown_bytes, a.place.site, a.stack) <
           std::tie(a.status, a.grown_bytes, b.place.site, b.stack);
  });
}

bool IsShared(const Analysis& analysis, int device) {
  return std::any_of(analysis.devices.begin(), analysis.devices.end(),
                     [&](const DeviceAnalysis& each) { return each.device == device && !each.use.neighbours.empty(); });
}

}  // namespace

LeakFinder::LeakFinder(const Analysis* analysis, const StackTable* stacks, const FrameResolver& resolve,
                       PlaceOfStack place_of, LeakRequest request)
    : analysis_(analysis),
      place_of_(std::move(place_of)),
      request_(std::move(request)),
      classifier_(stacks, &rules_, resolve) {
  for (const DeviceAnalysis& device : analysis->devices) findings_.devices.push_back({device.device, {}, 0});
  if (analysis->host_pinned_peak != 0 || analysis->managed_peak != 0) findings_.devices.push_back({kHostDevice, {}, 0});
}

LabelVisitor* LeakFinder::BeginFirst(const LabelReplay&) { return &counter_.emplace(request_.from_ns, &classifier_); }

void LeakFinder::EndFirst(const LabelReplay&) { loops_ = counter_->Loops(); }

LabelVisitor* LeakFinder::BeginSecond(const LabelReplay& replay) {
  if (loops_.empty()) return nullptr;
  return &survival_pass_.emplace(&replay, loops_, classifier_, request_.to_ns);
}

std::vector<LeakLoop> LeakFinder::DescribeLoops() const {
  std::vector<LeakLoop> described;
  for (size_t i = 0; i < loops_.size(); ++i) {
    LeakLoop& loop = described.emplace_back();
    loop.are_steps = loops_[i].kind == Loop::Kind::kSteps;
    if (!loop.are_steps) loop.place = place_of_(loops_[i].stack);
    loop.iterations = survival_pass_->IterationsOf(i) + (loop.are_steps ? 0 : 1);  // the last one has no end
    const auto [begin, end] = survival_pass_->AnchorsOf(i);
    if (begin == end) continue;
    loop.from_ns = survival_pass_->TimeOf(begin);
    loop.to_ns = survival_pass_->TimeOf(end - 1);
  }
  return described;
}

// One call that makes, copies or moves a model, block after block: nothing is let go of meanwhile. In a window that
// ends before anything tells what they are it is enough that a model is made.
bool LeakFinder::MakesAModel(const LeakRow& row) {
  const LeakLoop& loop = findings_.loops[row.loop];
  if (loop.are_steps || loop.place.site != row.place.site) return false;
  if (request_.to_ns >= analysis_->end_ns && survival_pass_->LetsGo(row.loop)) return false;
  const Stage stage = classifier_.Of(row.stack).stage;
  return stage == Stage::kConstruction || stage == Stage::kLoad;
}

void LeakFinder::EndSecond() {
  findings_.has_lives = ImportInfoOf(analysis_->process.settings).has_lives;
  if (!findings_.has_lives) return;
  findings_.loops = DescribeLoops();
  LeakRowSources sources{&*survival_pass_, &classifier_, &place_of_, &request_.source, loops_.size(), {}, {}};
  sources.ran_out =
      std::any_of(analysis_->ooms.begin(), analysis_->ooms.end(), [](const OomEvent& oom) { return oom.final; });
  for (const LeakLoop& loop : findings_.loops) sources.are_steps.push_back(loop.are_steps);
  for (LeakDevice& device : findings_.devices) {
    device.rows = LeakRows(sources, device.device);
    for (LeakRow& row : device.rows) {
      if (row.status == LeakStatus::kGrowing && MakesAModel(row)) row.status = LeakStatus::kExpected;
    }
    // What the driver took is how far the device's free memory fell: that of another process there, too.
    if (IsShared(*analysis_, device.device))
      std::erase_if(device.rows, [](const LeakRow& row) { return row.kind == LeakKind::kDriver; });
    if (request_.suppressions != nullptr) {
      device.suppressed = std::erase_if(
          device.rows, [&](const LeakRow& row) { return request_.suppressions->Matches(row.place.names); });
    }
    Sort(&device.rows);
  }
}

}  // namespace gpumem

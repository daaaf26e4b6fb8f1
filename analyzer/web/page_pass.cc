// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/page_pass.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ledger/load/input.h"
#include "ledger/stacks/stack_view.h"
#include "replay/state/accounts.h"

namespace gpumem {
namespace {

// Events around a peak, before and behind a failed request, behind a mark.
constexpr uint64_t kAroundPeak = 1'024, kBeforeFailure = 512, kBehindFailure = 128, kBehindMark = 128;

bool IsGpu(uint32_t slot) { return slot > 0 && DeviceOfSlot(slot) < kMaxDevices; }

uint64_t Before(uint64_t event, uint64_t by) { return event - std::min(event, by); }

}  // namespace

absl::string_view PageLayerName(PageLayer layer) {
  constexpr absl::string_view kNames[kPageLayers] = {"category", "module", "line", "stream"};
  return kNames[static_cast<size_t>(layer)];
}

void PagePass::AddLayers(const PageLife& life) {
  PageDevice* const device = DeviceOf(SlotOfDevice(life.device));
  const size_t from = device->rows.At(life.life.born), to = device->rows.At(life.life.end);
  const uint32_t keys[] = {static_cast<uint32_t>(life.category), life.module, life.line,
                           StreamNumber(life.life.stream)};
  for (size_t layer = 0; layer < kPageLayers; ++layer) {
    device->layers[layer].Add(keys[layer], from, to, life.life.size);
  }
}

bool PagePass::IsWanted(const Life& life) const { return IsGpu(life.slot); }

PageLives::Use PagePass::UseOf(const Life& life) const {
  const bool is_ended = life.end < facts_.events;
  if (windows_.Has(life.born) || (is_ended && windows_.Has(life.end))) return PageLives::Use::kOfEvent;
  const auto is_alive = [&](uint64_t event) { return life.born <= event && event < life.end; };
  const bool is_of_moment = life.kept || std::any_of(peaks_.begin(), peaks_.end(), is_alive);
  return is_of_moment ? PageLives::Use::kOfMoment : PageLives::Use::kNone;
}

void PagePass::Lived(const Life& life, const AttributedUse& use) {
  PageLife row;
  row.life = life;
  row.device = DeviceOfSlot(life.slot);
  row.stack_id = use.stack_id;
  row.category = use.category;
  row.evidence = use.evidence;
  row.module = use.module;
  row.line = LineOf(use.stack_id);
  row.name = use.name;
  row.layer = use.layer;
  row.memory = use.memory;
  const bool is_segment = life.kind == LifeKind::kSegment;
  if (!is_segment) AddLayers(row);
  (is_segment ? segments_ : blocks_).Add(row, UseOf(life));
}

PagePass::PagePass(LoadedTrace* loaded, const PageLimits& limits)
    : loaded_(loaded),
      limits_(limits),
      windows_(limits.single_events + (limits.asked.until - limits.asked.from)),
      blocks_(limits.blocks),
      segments_(limits.segments) {
  for (const DeviceAnalysis& device : loaded->analysis.devices)
    peaks_.push_back(LiveAtPeak(device, DefaultMeasure(device)).event_index);
  ChooseWindows();
}

// Those of marks are known by their times alone until their events come.
void PagePass::ChooseWindows() {
  windows_.Add(limits_.asked.from, limits_.asked.until);
  if (limits_.single_events == 0) return;
  for (const uint64_t peak : peaks_) windows_.Add(Before(peak, kAroundPeak), peak + kAroundPeak);
  for (const OomEvent& oom : loaded_->analysis.ooms) {
    if (oom.final) windows_.Add(Before(oom.event_index, kBeforeFailure), oom.event_index + kBehindFailure);
  }
  for (const MarkEntry& mark : loaded_->analysis.marks.entries()) {
    if (mark.kind == trace::MARK && mark.number != kProgramEndMark) mark_times_.push_back(mark.time_ns);
  }
  std::sort(mark_times_.begin(), mark_times_.end());
}

void PagePass::Totals(uint64_t event, uint64_t time_ns, uint32_t slot, const MeasureValues& values) {
  if (!IsGpu(slot)) return;
  bool is_marked = false;
  for (; next_mark_ < mark_times_.size() && mark_times_[next_mark_] <= time_ns; ++next_mark_) is_marked = true;
  if (is_marked) windows_.Add(event, event + kBehindMark);
  DeviceOf(slot)->rows.Observe(event, time_ns, values, windows_.Has(event));
}

std::vector<EventRange> PagePass::SingleEvents() const {
  if (!blocks_.has_events() || !segments_.has_events()) return {};
  const bool is_exact = std::all_of(devices_.begin(), devices_.end(),
                                    [](const PageDevice& device) { return device.rows.changes_in_row() == 1; });
  if (is_exact && blocks_.left_out() == 0 && segments_.left_out() == 0) return {{0, facts_.events}};
  return windows_.ranges();
}

void PagePass::Begin(const LivesFacts& facts) {
  facts_.events = facts.events;
  for (const DeviceAnalysis& device : loaded_->analysis.devices) {
    const LiveSet& peak = LiveAtPeak(device, DefaultMeasure(device));
    TimeRows& rows = DeviceOf(SlotOfDevice(device.device))->rows;
    if (rows.empty()) rows.Observe(peak.event_index, peak.time_ns, peak.values);  // of one moment
    rows.Pin(peak.event_index, peak.time_ns, peak.values);
  }
  for (PageDevice& device : devices_) device.rows.Finish();
}

void PagePass::Ended(const LivesFacts& facts) {
  blocks_.Finish();
  segments_.Finish();
  facts_ = facts;
}

PageDevice* PagePass::DeviceOf(uint32_t slot) {
  const int number = DeviceOfSlot(slot);
  const auto place = std::lower_bound(devices_.begin(), devices_.end(), number,
                                      [](const PageDevice& device, int wanted) { return device.device < wanted; });
  if (place != devices_.end() && place->device == number) return &*place;
  return &*devices_.insert(place, PageDevice{number, TimeRows(limits_.rows, limits_.exact_rows), {}});
}

uint32_t PagePass::LineOf(uint64_t stack_id) {
  const auto [found, is_new] = line_of_stack_.try_emplace(stack_id, 0);
  if (!is_new) return found->second;
  const StackView view = ViewStack(loaded_->source->Frames(stack_id), "", loaded_->analysis.process.working_directory);
  const auto [line, is_new_line] = line_numbers_.try_emplace(view.site, static_cast<uint32_t>(lines_.size()));
  if (is_new_line) lines_.push_back(view.site);
  return line_of_stack_[stack_id] = line->second;
}

uint32_t PagePass::StreamNumber(uint64_t stream) {
  if (stream == 0) return 0;
  const auto [found, is_new] = stream_numbers_.try_emplace(stream, static_cast<uint32_t>(streams_.size()));
  if (is_new) streams_.push_back(stream);
  return found->second;
}

std::string PagePass::KeyText(PageLayer by, uint32_t key) {
  switch (by) {
    case PageLayer::kCategory:
      return std::string(CategoryTitle(static_cast<Category>(key)));
    case PageLayer::kModule:
      return ModuleText(facts_.modules[key]);
    case PageLayer::kLine:
      return lines_[key];
    case PageLayer::kStream:
      break;
  }
  return key == 0 ? "default stream" : absl::StrCat("stream 0x", absl::Hex(streams_[key]));
}

}  // namespace gpumem

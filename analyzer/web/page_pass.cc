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

bool IsGpu(uint32_t slot) { return slot > 0 && DeviceOfSlot(slot) < kMaxDevices; }

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

// Alive at a moment that the page is opened for.
bool PagePass::IsOfMoment(const Life& life) const {
  return life.kept || std::any_of(peaks_.begin(), peaks_.end(),
                                  [&](uint64_t event) { return life.born <= event && event < life.end; });
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
  (is_segment ? segments_ : blocks_).Add(row, IsOfMoment(life));
}

PagePass::PagePass(LoadedTrace* loaded, const PageLimits& limits)
    : loaded_(loaded), limits_(limits), blocks_(limits.blocks), segments_(limits.segments) {
  for (const DeviceAnalysis& device : loaded->analysis.devices)
    peaks_.push_back(LiveAtPeak(device, DefaultMeasure(device)).event_index);
}

void PagePass::Totals(uint64_t event, uint64_t time_ns, uint32_t slot, const MeasureValues& values) {
  if (IsGpu(slot)) DeviceOf(slot)->rows.Observe(event, time_ns, values);
}

void PagePass::Begin(const LivesFacts&) {
  for (const DeviceAnalysis& device : loaded_->analysis.devices) {
    const LiveSet& peak = LiveAtPeak(device, DefaultMeasure(device));
    TimeRows& rows = DeviceOf(SlotOfDevice(device.device))->rows;
    if (rows.rows().empty()) rows.Observe(peak.event_index, peak.time_ns, peak.values);  // of one moment
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
  return &*devices_.insert(place, PageDevice{number, TimeRows(limits_.rows), {}});
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

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

constexpr uint64_t kEventsPerProgress = 1u << 18;

bool IsGpu(uint32_t slot) { return slot > 0 && DeviceOfSlot(slot) < kMaxDevices; }

}  // namespace

absl::string_view PageLayerName(PageLayer layer) {
  constexpr absl::string_view kNames[kPageLayers] = {"category", "module", "line", "stream"};
  return kNames[static_cast<size_t>(layer)];
}

// The index pass of attribution, and the totals behind each event.
class PagePass::Rows final : public LabelVisitor {
 public:
  Rows(PagePass* page, IndexPass* index_pass, const LabelReplay* replay)
      : page_(page), index_pass_(index_pass), replay_(replay) {}

  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) override {
    index_pass_->BlockEnded(block, label, end, alive);
  }
  void TensorPlaced(uint32_t tensor, uint64_t bytes) override { index_pass_->TensorPlaced(tensor, bytes); }

  void Before(uint64_t index, const EventBatch* batch, size_t i) override {
    index_pass_->Before(index, batch, i);
    if (IsGpu(slot_) && slot_ < replay_->state().slots()) {
      page_->DeviceOf(slot_)->rows.Observe(event_, time_ns_, replay_->state().values(slot_));
    }
    page_->events_ = index;
    if (batch == nullptr) return;
    event_ = index;
    time_ns_ = batch->time_ns(i);
    slot_ = IsMark(batch->kind(i)) || IsLabel(batch->kind(i)) ? 0 : SlotOfDevice(batch->device(i));
    if (page_->progress_ && index % kEventsPerProgress == 0) page_->progress_(1, index);
  }

 private:
  PagePass* page_;
  IndexPass* index_pass_;
  const LabelReplay* replay_;
  uint64_t event_ = 0, time_ns_ = 0;  // of the event before, whose totals are there when the next one comes
  uint32_t slot_ = 0;
};

class PagePass::Lives final : public LifePass {
 public:
  Lives(PagePass* page, const LifePass::Needs& needs) : LifePass(needs), page_(page) {
    for (const DeviceAnalysis& device : needs.analysis->devices) {
      wanted_.push_back(LiveAtPeak(device, DefaultMeasure(device)).event_index);
    }
  }

  void Before(uint64_t index, const EventBatch* batch, size_t i) override;

 private:
  void Lived(const Life& life, const AttributedUse& use) override;
  void AddLayers(const PageLife& life);
  bool IsWanted(const Life& life) const override { return IsGpu(life.slot); }
  // Alive at a moment that the page is opened for.
  bool IsOfMoment(const Life& life) const {
    return life.kept || std::any_of(wanted_.begin(), wanted_.end(),
                                    [&](uint64_t event) { return life.born <= event && event < life.end; });
  }

  PagePass* page_;
  std::vector<uint64_t> wanted_;  // events
};

void PagePass::Lives::Before(uint64_t index, const EventBatch* batch, size_t i) {
  LifePass::Before(index, batch, i);
  if (page_->progress_ && batch != nullptr && index % kEventsPerProgress == 0) page_->progress_(2, index);
}

void PagePass::Lives::AddLayers(const PageLife& life) {
  PageDevice* const device = page_->DeviceOf(SlotOfDevice(life.device));
  const size_t from = device->rows.At(life.life.born), to = device->rows.At(life.life.end);
  const uint32_t keys[] = {static_cast<uint32_t>(life.category), life.module, life.line,
                           page_->StreamNumber(life.life.stream)};
  for (size_t layer = 0; layer < kPageLayers; ++layer) {
    device->layers[layer].Add(keys[layer], from, to, life.life.size);
  }
}

void PagePass::Lives::Lived(const Life& life, const AttributedUse& use) {
  PageLife row;
  row.life = life;
  row.device = DeviceOfSlot(life.slot);
  row.stack_id = use.stack_id;
  row.category = use.category;
  row.evidence = use.evidence;
  row.module = use.module;
  row.line = page_->LineOf(use.stack_id);
  row.name = use.name;
  row.layer = use.layer;
  row.memory = use.memory;
  const bool is_segment = life.kind == LifeKind::kSegment;
  if (!is_segment) AddLayers(row);
  (is_segment ? page_->segments_ : page_->blocks_).Add(row, IsOfMoment(life));
}

PagePass::PagePass(LoadedTrace* loaded, const PageLimits& limits, Progress progress)
    : LivesAnalysis(loaded),
      limits_(limits),
      progress_(std::move(progress)),
      blocks_(limits.blocks),
      segments_(limits.segments) {}

PagePass::~PagePass() = default;

LabelVisitor* PagePass::First(IndexPass* index_pass, const LabelReplay& replay) {
  rows_ = std::make_unique<Rows>(this, index_pass, &replay);
  return rows_.get();
}

void PagePass::EndFirst(const LabelReplay&) {
  for (const DeviceAnalysis& device : loaded()->analysis.devices) {
    const LiveSet& peak = LiveAtPeak(device, DefaultMeasure(device));
    DeviceOf(SlotOfDevice(device.device))->rows.Pin(peak.event_index, peak.time_ns, peak.values);
  }
  for (PageDevice& device : devices_) device.rows.Finish();
}

LabelVisitor* PagePass::Second(const LifePass::Needs& needs) {
  lives_ = std::make_unique<Lives>(this, needs);
  return lives_.get();
}

void PagePass::EndSecond() {
  blocks_.Finish();
  segments_.Finish();
  end_event_ = lives_->end_event();
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
  const StackView view =
      ViewStack(loaded()->source->Frames(stack_id), "", loaded()->analysis.process.working_directory);
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
      return ModuleText(modules()->row(key));
    case PageLayer::kLine:
      return lines_[key];
    case PageLayer::kStream:
      break;
  }
  return key == 0 ? "default stream" : absl::StrCat("stream 0x", absl::Hex(streams_[key]));
}

}  // namespace gpumem

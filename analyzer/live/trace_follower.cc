// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/trace_follower.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "ledger/attribution/attribution_pass.h"
#include "ledger/load/own_trace.h"
#include "replay/live_set.h"
#include "replay/losses.h"
#include "replay/process_info.h"

namespace gpumem {
namespace {

AttributionRequest RequestOf(const LiveFocus& focus) {
  AttributionRequest request;
  request.device = DeviceOfSlot(focus.slot);
  request.measure = focus.measure;
  request.steps = true;
  return request;
}

}  // namespace

LiveTally::LiveTally(const LiveFocus& focus, const LabelReplay* replay, const StackTable* names,
                     StackClassifier* classifier)
    : focus_(focus),
      replay_(replay),
      names_(names),
      user_stages_(&marks_, names),
      request_(RequestOf(focus)),
      index_(request_, focus.slot, replay, names, classifier, &user_stages_) {}

void LiveTally::BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) {
  index_.BlockEnded(block, label, end, alive);
}

void LiveTally::Before(uint64_t index, const EventBatch* batch, size_t i) {
  const uint32_t kind = batch->kind(i);
  if (!std::exchange(has_origin_, true)) origin_ns_ = now_ns_ = batch->time_ns(i);
  now_ns_ = std::max(now_ns_, batch->time_ns(i));
  ++events_;
  const uint32_t layer = batch->layer(i);
  const bool is_call = layer == trace::TORCH || layer == trace::RUNTIME || layer == trace::DRIVER;
  calls_ += is_call && kind != trace::FREE_FAILED ? 1 : 0;
  if (!are_settled_) {
    TakeReserved();
    are_settled_ = batch->time_ns(i) > statements_ns_;
  }
  if (IsMark(kind)) {
    const bool is_end = kind == trace::MARK && batch->handle(i) == kProgramEndMark;
    if (is_end && on_program_end_) std::exchange(on_program_end_, nullptr)();
    if (!is_end) marks_.Add(*batch, i, *names_);
  }
  if (kind == trace::ALLOC_FAILED) {
    const bool is_memory = batch->layer(i) != trace::TORCH && batch->result(i) == 2;
    torch_failures_ += batch->layer(i) == trace::TORCH ? 1 : 0;
    cuda_failures_ += is_memory ? 1 : 0;
  }
  index_.Before(index, batch, i);
}

void LiveTally::Applied(uint64_t index, uint32_t slot, const EventBatch&, size_t) {
  const LiveState& state = replay_->state();
  if (slot >= state.slots()) return;
  last_index_ = index;
  ObserveState(state, slot, now_ns_, index, &SeriesOf(slot));
}

DeviceSeries& LiveTally::SeriesOf(uint32_t slot) {
  if (slot >= series_.size()) series_.resize(slot + 1);
  if (!series_[slot]) series_[slot].emplace(origin_ns_, AnalyzeOptions());
  return *series_[slot];
}

const DeviceStatement* LiveTally::statement(uint32_t slot) const {
  const auto found = statements_.find(slot);
  return found == statements_.end() ? nullptr : &found->second;
}

void LiveTally::TakeReserved() {
  for (auto& [slot, said] : statements_) {
    if (said.time_ns == statements_ns_ && slot < replay_->state().slots())
      said.reserved = replay_->state().values(slot).reserved;
  }
}

void LiveTally::TakeCounters(const trace::Counters& counters) {
  for (const trace::DeviceCounters& device : counters.devices()) {
    const uint32_t slot = SlotOfDevice(device.device());
    const LiveState& state = replay_->state();
    if (slot < state.slots() && state.accounts().devices[slot].torch_events != 0) {
      SeriesOf(slot).TakeStated(now_ns_, last_index_, device.torch_allocated_bytes(), device.torch_reserved_bytes(),
                                state.IsSure(slot));
    }
    if (!device.has_used_bytes() && !device.has_own_bytes()) continue;
    DeviceStatement& said = statements_[slot];
    said = {};
    if (device.has_used_bytes()) said.used = device.used_bytes();
    if (device.has_own_bytes()) said.own = device.own_bytes();
    said.total = device.total_bytes();
    for (const trace::DeviceProcess& other : device.others())
      said.others.push_back({other.pid(), other.name(), other.has_used_bytes() ? other.used_bytes() : kNotStated});
    said.time_ns = counters.time_ns();
  }
  if (counters.devices_size() != 0) statements_ns_ = counters.time_ns();
  are_settled_ = false;
  TakeReserved();
  if (has_origin_) now_ns_ = std::max(now_ns_, counters.time_ns());
}

void LiveTally::TakeItems(const std::vector<BatchStream::Item>& items) {
  for (const BatchStream::Item& item : items) {
    if (item.type == ItemType::kEnd) complete_ = true;
    if (item.type == ItemType::kCounters) TakeCounters(item.counters);
    if (item.type == ItemType::kLosses) TakeLosses(item.losses, &losses_);
    if (item.type == ItemType::kCupti) TakeCuptiLosses(item.cupti, &losses_);
  }
}

namespace {

constexpr size_t kBatchesASlice = 16;
constexpr std::chrono::milliseconds kSlice(100);

SymbolizerOptions PythonAlone() {
  SymbolizerOptions options;
  options.native = false;
  return options;
}

FrameResolver ResolverOf(Symbolizer* symbolizer) {
  return [symbolizer](uint32_t frame) -> const std::vector<ResolvedFrame>& { return symbolizer->ResolveFrame(frame); };
}

class PlaceCollector final : public LabelVisitor {
 public:
  PlaceCollector(PlaceRoles* places, HeldByStack* held) : places_(places), held_(held) {}
  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t, bool) override {
    NotePlace(block, label, places_);
    NoteHeld(block, label, held_);
  }

 private:
  PlaceRoles* places_;
  HeldByStack* held_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TraceFollower>> TraceFollower::Open(const std::string& path, const Options& options) {
  GPUMEM_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
  if (reader.Next() != ItemType::kHeader)
    return absl::InvalidArgumentError(absl::StrCat(path, " is damaged: its header cannot be read"));
  reader.Follow();
  return std::unique_ptr<TraceFollower>(new TraceFollower(path, options, std::move(reader)));
}

TraceFollower::TraceFollower(std::string path, const Options& options, TraceReader reader)
    : path_(std::move(path)),
      options_(options),
      process_(ProcessInfoOf(reader.header())),
      reader_(std::move(reader)),
      step_symbolizer_(std::make_unique<Symbolizer>(&reader_.stacks(), PythonAlone())),
      step_classifier_(
          std::make_unique<StackClassifier>(&reader_.stacks(), &rules_, ResolverOf(step_symbolizer_.get()))),
      replay_(&reader_, &reader_.stacks().objects(), UINT64_MAX),
      tally_(options.focus, &replay_, &reader_.stacks(), step_classifier_.get()) {
  tally_.OnProgramEnd([this] { at_program_end_ = TakeDetail(); });
}

absl::Status TraceFollower::Poll(bool to_the_end) {
  const auto until = std::chrono::steady_clock::now() + kSlice;
  if (is_through_ || reader_.position() == 0) {
    if (!reader_.Refresh())
      return absl::AbortedError(absl::StrCat(path_, " was replaced, or cut, while it was read. It is read anew."));
  }
  bool plays_newest = to_the_end || reader_.ended();
  do {
    is_through_ = replay_.Follow(&tally_, plays_newest, kBatchesASlice);
    if (!is_through_ || plays_newest) continue;
    // Nothing came since the last time, or nothing will.
    const bool is_over = reader_.ended() || reader_.process() == ProcessState::kEnded;
    plays_newest = is_over || tally_.events() == events_at_last_poll_;
    if (plays_newest) is_through_ = false;
  } while (!is_through_ && (to_the_end || std::chrono::steady_clock::now() < until));
  if (is_through_) events_at_last_poll_ = tally_.events();
  if (replay_.replay().stream().lacks_existing() && is_through_ && !to_the_end)
    return absl::AbortedError(absl::StrCat(path_, " is read anew: what was alive when recording began came late."));
  return absl::OkStatus();
}

LiveFocus TraceFollower::WantedFocus() const {
  constexpr double kClearly = 1.1;  // lest it goes to and fro between devices that are alike
  LiveFocus wanted = tally_.focus();
  const auto size = [&](uint32_t slot) {
    const DeviceSeries* const series = tally_.series(slot);
    return series == nullptr ? 0 : std::max(series->peak_total().bytes, series->peak_allocated().bytes);
  };
  for (uint32_t slot = 0; slot < tally_.slots(); ++slot) {
    if (static_cast<double>(size(slot)) > kClearly * static_cast<double>(size(wanted.slot))) wanted.slot = slot;
  }
  if (const DeviceSeries* const series = tally_.series(wanted.slot)) {
    const bool uses_torch = series->peak_allocated().bytes > 0 || series->peak_reserved().bytes > 0;
    wanted.measure = uses_torch ? Measure::kAllocated : Measure::kTotal;
  }
  return wanted;
}

// Takes a twentieth of the time at most: a program that starts up has new frames all the while.
void TraceFollower::LookUpNames() {
  const size_t frames = reader_.stacks().frame_count();
  const auto start = std::chrono::steady_clock::now();
  if (symbolizer_ && (frames == frames_named_ || start < named_until_)) return;
  frames_named_ = frames;
  SymbolizerOptions options = options_.symbols;
  options.search.working_directory = process_.working_directory;
  options.search.needs_build_ids = !IsOwnTrace(path_, process_);
  classifier_.reset();
  symbolizer_ = std::make_unique<Symbolizer>(&reader_.stacks(), std::move(options));
  classifier_ = std::make_unique<StackClassifier>(&reader_.stacks(), &rules_, ResolverOf(symbolizer_.get()));
  symbolizer_->Prepare();
  const auto end = std::chrono::steady_clock::now();
  named_until_ = end + 20 * (end - start);
}

// What blocks that ended, and those that live, say of their places.
PlaceRoles TraceFollower::Places(HeldByStack* held) const {
  PlaceRoles places = tally_.index().places();
  PlaceCollector collector(&places, held);
  replay_.ShowLive(&collector);
  return places;
}

// As `gpumemshim at end` would say it of a trace that ended here.
TraceFollower::Detail TraceFollower::TakeDetail() {
  Detail detail;
  const LiveState& state = replay_.state();
  const LiveFocus& focus = tally_.focus();
  for (uint32_t slot = 0; slot < state.slots(); ++slot) detail.values.push_back(state.values(slot));
  const uint64_t index = replay_.replay().index();
  if (index == 0 || focus.slot >= state.slots()) return detail;
  LookUpNames();
  detail.found = true;
  detail.stacks = CollectLiveSet(state, focus.slot, focus.measure, tally_.now_ns(), index - 1, reader_.stacks()).stacks;
  AttributionRequest request;
  request.device = DeviceOfSlot(focus.slot);
  request.measure = focus.measure;
  ModuleTable modules(&reader_.stacks().objects(), &rules_);
  UserStages user_stages(&tally_.marks(), &reader_.stacks());
  HeldByStack held;
  const PlaceRoles places = Places(&held);
  AttributionPass::Needs needs;
  needs.lives.uses = {
      &replay_, &places, tally_.index().has_tensors(), classifier_.get(), &modules, &user_stages, Loop(),
      0,        &held,   tally_.index().has_saved()};
  needs.lives.until_ns = UINT64_MAX;
  needs.request = &request;
  needs.slot = focus.slot;
  AttributionPass pass(needs, {index - 1}, {index - 1});
  pass.Before(index, nullptr, 0);
  replay_.ShowLive(&pass);
  pass.Sum();
  pass.Describe(index - 1, &detail.moment);
  return detail;
}

}  // namespace gpumem

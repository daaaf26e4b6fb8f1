// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/peak_without.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "answers/report/idle_graphs.h"
#include "answers/report/stack_rows.h"
#include "base/status_macros.h"
#include "ledger/stacks/frame_class.h"

namespace gpumem {
namespace {

constexpr size_t kCounted = 3;  // parts that are added up as they come; of the others there are few blocks
constexpr size_t kMostFailures = 64;
// A line carries something over where it does so in so many rounds, and lets go of it within so many.
constexpr uint64_t kLeastCarried = 3, kMostRounds = 3;
constexpr ptrdiff_t kLeastKept = 8;  // of a line that keeps what it computed for longer: blocks at the peak
// Of what a checkpoint's copies are said to be, the model and its optimizer have the sizes of at least so much.
constexpr uint64_t kPercentOfCopies = 80;

bool IsOfModel(Category category) {
  return category == Category::kParameter || category == Category::kBuffer || category == Category::kOptimizerState;
}

bool MayBeCarried(Category category, Stage stage, bool is_distributed) {
  if (stage != Stage::kForward && stage != Stage::kLoss && stage != Stage::kData && stage != Stage::kNone) return false;
  // In a pipeline the backward pass of a later round needs it.
  if (category == Category::kActivation) return !is_distributed;
  return category == Category::kTemporary || category == Category::kKept || category == Category::kInput ||
         category == Category::kUnknown;
}

absl::flat_hash_set<uint64_t> WidthsOf(const ObjectTable& objects) {
  absl::flat_hash_set<uint64_t> widths;
  for (const auto& [id, tensor] : objects.tensors())
    if (tensor.role == TensorRole::kParameter && tensor.shape.size() == 2) widths.insert(tensor.shape[0]);
  return widths;
}

// The outermost operator inside the innermost function of Python.
ResultOf ResultOfFrames(const std::vector<uint32_t>& frames, const FrameResolver& resolve) {
  std::string name;
  for (const uint32_t id : frames) {
    for (const ResolvedFrame& frame : resolve(id)) {
      if (frame.python) return ResultOfOperator(name);
      if (std::string found = AtenOperator(frame.function); !found.empty()) name = std::move(found);
    }
  }
  return ResultOf::kOther;
}

}  // namespace

PeakWithout::PeakWithout(LoadedTrace* loaded, const DeviceAnalysis& device, std::string line)
    : loaded_(loaded),
      classifier_(&loaded->stacks, &rules_, ResolverOf(loaded)),
      slot_(SlotOfDevice(device.device)),
      peak_(device.peak_allocated.bytes),
      peak_event_(device.peak_allocated.event_index),
      line_(std::move(line)),
      spare_(peak_, peak_event_, WidthsOf(loaded->stacks.objects())) {
  for (const OomEvent& oom : loaded->analysis.ooms) {
    if (!oom.final || oom.device != device.device || failures_.size() == kMostFailures) continue;
    Failure failure{oom.event_index, PythonFrames(oom.stack_id)};
    if (!failure.callers.empty()) failure.callers.pop_back();
    failures_.push_back(std::move(failure));
  }
}

std::unique_ptr<PeakWithout> PeakWithout::Make(LoadedTrace* loaded, const DeviceAnalysis* device, std::string line,
                                               uint64_t most_events) {
  const EventCounts& events = loaded->analysis.events;
  if (device == nullptr || DefaultMeasure(*device) != Measure::kAllocated ||
      events.torch + events.runtime + events.driver > std::min(most_events, kMostEvents))
    return nullptr;
  return std::make_unique<PeakWithout>(loaded, *device, std::move(line));
}

absl::StatusOr<std::unique_ptr<PeakWithout>> PeakWithout::Count(LoadedTrace* loaded, const DeviceAnalysis* device,
                                                                std::string line) {
  std::unique_ptr<PeakWithout> without = Make(loaded, device, std::move(line));
  if (without == nullptr) return without;
  GPUMEM_RETURN_IF_ERROR(ShowLives(loaded, without.get()));
  loaded->input.without = without.get();
  return without;
}

// Outermost first.
std::vector<uint32_t> PeakWithout::PythonFrames(uint64_t stack_id) const {
  std::vector<uint32_t> frames = loaded_->stacks.Frames(stack_id);
  std::erase_if(frames, [&](uint32_t id) {
    const FrameInfo* const frame = loaded_->stacks.frame(id);
    return frame == nullptr || frame->python_code == 0;
  });
  std::reverse(frames.begin(), frames.end());
  return frames;
}

PeakWithout::OfStack PeakWithout::Of(uint64_t stack_id) {
  const auto [found, is_new] = of_stacks_.try_emplace(stack_id);
  if (!is_new) return found->second;
  OfStack& of = found->second;
  const StackClassification classification = classifier_.Of(stack_id);
  of.stage = classification.stage;
  of.is_loss = classification.is_loss || classification.stage == Stage::kLoss;
  of.is_moved = classification.origin == Origin::kMoved || classification.stage == Stage::kData;
  of.is_recomputed = classification.recomputed;
  of.result_of = ResultOfFrames(loaded_->stacks.Frames(stack_id), classifier_.resolve());
  if (classification.stage == Stage::kOptimizer) {
    for (const uint32_t frame : loaded_->stacks.Frames(stack_id)) {
      for (const ResolvedFrame& each : classifier_.resolve()(frame))
        of.is_foreach |= each.python && absl::StrContains(each.function, "_multi_tensor_");
    }
  }
  if (line_.empty()) return of;
  StackUse use;
  use.stack_id = stack_id;
  use.layer = static_cast<uint8_t>(trace::TORCH);
  const std::vector<StackGroup> groups = GroupStacks({use}, loaded_->input, /*by_stack=*/false);
  of.is_of_line = !groups.empty() && groups[0].view.site == line_;
  return of;
}

void PeakWithout::AddTo(std::vector<int64_t>* changes, const Block& block) {
  const uint64_t last = std::min(block.end, kMostEvents);
  if (changes->size() <= last) changes->resize(last + 1);
  (*changes)[block.born] += static_cast<int64_t>(block.size);
  (*changes)[last] -= static_cast<int64_t>(block.size);
}

void PeakWithout::Begin(const LivesFacts& facts) {
  for (const Step& step : facts.steps)
    if (step.complete) step_ends_.push_back(step.end.event_index);
}

void PeakWithout::Lived(const Life& life, const AttributedUse& use) {
  is_too_long_ = is_too_long_ || life.born >= kMostEvents;
  if (is_too_long_) return;
  const Block block{life.born, life.end, life.size, use.stack_id};
  AddTo(&all_, block);
  const OfStack of = Of(use.stack_id);
  const bool is_counted[kCounted] = {use.category == Category::kActivation, of.is_loss, of.is_of_line};
  for (size_t part = 0; part < kCounted; ++part)
    if (is_counted[part]) AddTo(&of_parts_[part], block);
  if (life.saved && !IsOfModel(use.category)) saved_.push_back(block);
  if (!life.saved && use.category == Category::kInput) inputs_.push_back(block);
  if (!failures_.empty() && use.category == Category::kParameter) parameters_.push_back(block);
  if (!failures_.empty() && step_ends_.empty() && of.stage == Stage::kOptimizer) made_by_optimizer_.push_back(block);
  if (IsOfModel(use.category)) {
    model_sizes_.insert(life.size);
  } else if (of.stage == Stage::kLoad) {
    loaded_blocks_.push_back(block);
  } else if (use.category == Category::kGradient) {
    gradients_.push_back(block);
  } else if (MayBeCarried(use.category, of.stage, !loaded_->stacks.objects().process_groups().empty())) {
    (of.is_moved ? moved_ : computed_).push_back(block);
  } else if (of.is_foreach && use.category == Category::kTemporary) {
    cuts_.push_back({block, PeakPart::kForeach});
  }
  const bool is_plain =
      use.category == Category::kTemporary || use.category == Category::kUnknown || use.category == Category::kKept;
  spare_.Take(block, life.requested, of.result_of, is_plain && !life.saved && of.stage != Stage::kBackward);
  const bool is_backward = of.stage == Stage::kBackward || use.category == Category::kGradient;
  if (is_backward || (of.stage == Stage::kForward && !of.is_recomputed)) passes_.emplace_back(life.born, is_backward);
  if (use.category == Category::kActivation)
    for (const Failure& failure : failures_)
      if (life.born <= failure.event && failure.event < life.end) activations_[failure.event] += life.size;
  if (!failures_.empty()) NoteDead(block);
}

// Made by a call that failed, and alive when the same call failed again, or the next one like it.
void PeakWithout::NoteDead(const Block& block) {
  for (size_t i = 0; i + 1 < failures_.size(); ++i) {
    const Failure& failure = failures_[i];
    if (block.born >= failure.event || block.end <= failures_[i + 1].event || failure.callers.empty()) continue;
    const std::vector<uint32_t> frames = PythonFrames(block.stack);
    const bool is_of_call = frames.size() > failure.callers.size() &&
                            std::equal(failure.callers.begin(), failure.callers.end(), frames.begin());
    if (is_of_call) cuts_.push_back({{failure.event, block.end, block.size, block.stack}, PeakPart::kDeadAttempts});
    return;
  }
}

void PeakWithout::FindRounds() {
  std::sort(passes_.begin(), passes_.end());
  bool was_backward = true;
  for (const auto& [event, is_backward] : passes_) {
    if (is_backward && !was_backward) backwards_.push_back(event);
    if (!is_backward && was_backward) rounds_.push_back(event);
    was_backward = is_backward;
  }
}

// Of one optimizer: another's step may need them still.
void PeakWithout::CutGradients() {
  if (loaded_->stacks.objects().optimizers().size() > 1) return;
  for (const Block& gradient : gradients_) {
    for (auto end = std::lower_bound(step_ends_.begin(), step_ends_.end(), gradient.born);
         end != step_ends_.end() && *end < gradient.end; ++end) {
      const auto next = std::upper_bound(backwards_.begin(), backwards_.end(), *end);
      const uint64_t to = next == backwards_.end() ? gradient.end : std::min(gradient.end, *next);
      cuts_.push_back({{*end, to, gradient.size, gradient.stack}, PeakPart::kGradients});
    }
  }
}

// Many blocks at the peak, which go within a round of each other, before the program ends: an epoch's outputs. A buffer
// from which a training draws lets go of one after the other, a leak of none, and a running average is one block.
bool PeakWithout::IsLetGoOfAtOnce(const std::vector<Block>& blocks) const {
  ptrdiff_t at_peak = 0;
  uint64_t first = UINT64_MAX, last = 0;
  for (const Block& block : blocks) {
    if (block.born > peak_event_ || block.end <= peak_event_) continue;
    ++at_peak;
    first = std::min(first, block.end);
    last = std::max(last, block.end);
  }
  if (at_peak < kLeastKept || last > end_event_) return false;
  return std::upper_bound(rounds_.begin(), rounds_.end(), last) -
             std::upper_bound(rounds_.begin(), rounds_.end(), first) <=
         1;
}

void PeakWithout::CutCarried() {
  struct OfLine {
    uint64_t carried = 0, rounds = 0;
    bool is_moved = false;
    std::vector<Block> too_long;
  };
  std::map<uint64_t, OfLine> lines;
  const auto note = [&](const Block& block, bool is_moved) {
    auto round = std::upper_bound(rounds_.begin(), rounds_.end(), block.born);
    if (round == rounds_.begin() || round == rounds_.end()) return;
    // What is made behind a round's backward pass, or comes from the host meanwhile, is the next one's.
    const auto backward = std::lower_bound(backwards_.begin(), backwards_.end(), *std::prev(round));
    const bool is_next = is_moved || (backward != backwards_.end() && *backward < block.born);
    if (is_next && ++round == rounds_.end()) return;
    if (*round >= block.end) return;
    OfLine& line = lines[block.stack];
    ++line.carried;
    line.is_moved |= is_moved;
    line.rounds += static_cast<uint64_t>(std::lower_bound(round, rounds_.end(), block.end) - round);
    line.too_long.push_back({*round, block.end, block.size, block.stack});
  };
  for (const Block& block : computed_) note(block, false);
  for (const Block& block : moved_) note(block, true);
  for (const auto& [stack, line] : lines) {
    if (line.carried < kLeastCarried) continue;
    const bool is_kept = line.rounds > kMostRounds * line.carried;
    if (is_kept && (line.is_moved || !IsLetGoOfAtOnce(line.too_long))) continue;
    for (const Block& block : line.too_long)
      cuts_.push_back({block, is_kept ? PeakPart::kKeptLong : PeakPart::kCarried});
  }
}

// What was found by the rounds of a training already is not cut twice.
void PeakWithout::CutIdleGraphs() {
  std::vector<uint64_t> backward_events;
  for (const auto& [event, is_backward] : passes_)
    if (is_backward) backward_events.push_back(event);
  absl::flat_hash_set<uint64_t> known;
  for (const Cut& cut : cuts_)
    if (cut.part == PeakPart::kCarried) known.insert(cut.block.end);
  for (const Block& block : IdleGraphs(std::exchange(saved_, {}), inputs_, backward_events))
    if (!known.contains(block.end)) cuts_.push_back({block, PeakPart::kCarried});
}

// A dictionary that was loaded onto the device has what the model and the optimizer have, once more.
void PeakWithout::CutLoaded() {
  if (rounds_.empty()) return;
  uint64_t all = 0, copied = 0;
  std::vector<Cut> copies;
  for (const Block& block : loaded_blocks_) {
    if (block.end <= rounds_.front()) continue;
    all += block.size;
    if (!model_sizes_.contains(block.size)) continue;
    copied += block.size;
    copies.push_back({{rounds_.front(), block.end, block.size, block.stack}, PeakPart::kLoaded});
  }
  if (100 * copied >= kPercentOfCopies * all) cuts_.insert(cuts_.end(), copies.begin(), copies.end());
}

void PeakWithout::CutSpare() {
  for (const Block& block : spare_.Joined()) cuts_.push_back({block, PeakPart::kJoined});
  for (const Block& block : spare_.LittleUsed()) cuts_.push_back({block, PeakPart::kLittleUsed});
}

void PeakWithout::Ended(const LivesFacts& facts) {
  end_event_ = facts.end_event;
  int64_t held = 0, most = 0;
  for (const int64_t change : all_) most = std::max(most, held += change);
  if (is_too_long_ || static_cast<uint64_t>(most) != peak_) {
    cuts_.clear();  // what does not add up says nothing of a failure either
    activations_.clear();
    made_by_optimizer_.clear();
    return;
  }
  FindRounds();
  CutGradients();
  CutCarried();
  CutIdleGraphs();
  CutLoaded();
  CutSpare();
  for (size_t part = 0; part < kPeakParts; ++part) {
    std::vector<int64_t> removed;
    if (part < kCounted) removed = std::exchange(of_parts_[part], {});
    for (const Cut& cut : cuts_)
      if (part == static_cast<size_t>(cut.part)) AddTo(&removed, cut.block);
    removed.resize(all_.size());
    int64_t left = 0, most_left = 0;
    for (size_t i = 0; i < all_.size(); ++i) most_left = std::max(most_left, left += all_[i] - removed[i]);
    peaks_[part] = static_cast<uint64_t>(most_left);
  }
}

uint64_t PeakWithout::ActivationsAt(uint64_t event) const {
  const auto found = activations_.find(event);
  return found == activations_.end() ? 0 : found->second;
}

// As much for each parameter as the largest number of blocks that parameters of one size have so far.
uint64_t PeakWithout::StateMissingAt(uint64_t event) const {
  const auto is_alive = [&](const Block& block) { return block.born <= event && event < block.end; };
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> by_size;  // parameters, blocks of the optimizer
  uint64_t parameter_bytes = 0, made = 0, each = 0;
  for (const Block& block : parameters_) {
    if (!is_alive(block)) continue;
    ++by_size[block.size].first;
    parameter_bytes += block.size;
  }
  for (const Block& block : made_by_optimizer_) {
    const auto size = by_size.find(block.size);
    if (!is_alive(block) || size == by_size.end()) continue;
    ++size->second.second;
    made += block.size;
  }
  for (const auto& [size, count] : by_size) each = std::max(each, (count.second + count.first - 1) / count.first);
  return made == 0 ? 0 : each * parameter_bytes - std::min(made, each * parameter_bytes);
}

PeakWithout::Held PeakWithout::At(PeakPart part, std::optional<uint64_t> event) const {
  const uint64_t at = event.value_or(peak_event_);
  Held held;
  std::map<uint64_t, uint64_t> by_stack;
  for (const auto& [block, of] : cuts_) {
    if (of != part || block.born > at || block.end <= at) continue;
    held.bytes += block.size;
    ++held.blocks;
    uint64_t& bytes = by_stack[block.stack];
    bytes += block.size;
    if (held.stack == 0 || bytes > by_stack[held.stack]) held.stack = block.stack;
  }
  return held;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/lifetime_pass.h"

#include <algorithm>
#include <utility>

namespace gpumem {
namespace {

bool CountsBlocks(ViewMeasure measure) { return measure == ViewMeasure::kAllocated || measure == ViewMeasure::kHeld; }
bool CountsSegments(ViewMeasure measure) { return measure == ViewMeasure::kReserved || measure == ViewMeasure::kTotal; }
bool CountsOther(ViewMeasure measure) { return measure == ViewMeasure::kHeld || measure == ViewMeasure::kTotal; }

// Which of Accounts' sums outside of all devices it is in; kDefault: in none.
ViewMeasure OutsideOf(const CudaAllocation& allocation) {
  if (allocation.on_device) return ViewMeasure::kDefault;
  if (!allocation.counted) return ViewMeasure::kImported;
  return allocation.memory == trace::MANAGED ? ViewMeasure::kManaged : ViewMeasure::kPinned;
}

ViewMeasure OutsideOf(const PhysicalHandle& physical) {
  if (physical.imported) return ViewMeasure::kImported;
  return physical.memory == trace::PHYSICAL_HOST ? ViewMeasure::kPinned : ViewMeasure::kDefault;
}

// As CollectLiveSet has it.
bool Counts(ViewMeasure measure, const CudaMemory& cuda, const CudaAllocation& allocation) {
  if (IsOfProcess(measure)) return cuda.Matches(allocation.layer) && OutsideOf(allocation) == measure;
  return allocation.torch ? CountsSegments(measure) : CountsOther(measure) && cuda.InOther(allocation);
}

bool Counts(ViewMeasure measure, const CudaMemory& cuda, const PhysicalHandle& physical) {
  if (IsOfProcess(measure)) return cuda.Matches(physical.layer) && OutsideOf(physical) == measure;
  if (!physical.counted) return false;
  return physical.torch ? CountsSegments(measure) : CountsOther(measure) && cuda.InOther(physical);
}

template <typename Thing>
SingleAllocation ToLife(Held kind, const Thing& thing, ViewMeasure measure) {
  SingleAllocation life;
  life.kind = kind;
  life.stack = thing.stack;
  life.size = thing.size;
  life.alloc_ns = thing.time_ns;
  life.thread = thing.thread;
  life.slot = IsOfProcess(measure) ? SlotOfDevice(kProcess) : uint32_t{thing.slot};
  life.api = thing.api;
  return life;
}

// Does the thread take back, with its next event, what this free says?
bool IsTakenBack(const EventBatch& batch, size_t i, const EventBatch* following, ReplayWork* work) {
  bool taken_back = false;
  if (!work->CountEvent()) return false;
  Lookahead(&batch, i, following, work).ForThread(batch.thread(i), [&](const EventBatch& in, size_t next) {
    taken_back = in.kind(next) == trace::FREE_FAILED && in.address(next) == batch.address(i);
    return false;
  });
  return taken_back;
}

bool EndsAllocation(uint32_t kind) {
  return kind == trace::FREE || kind == trace::HOST_UNREGISTER || kind == trace::IMPORT_CLOSE;
}

}  // namespace

void VisitLive(const LiveState& state, uint32_t slot, ViewMeasure measure, uint64_t now_ns, const LifeVisitor& visit) {
  const auto show = [&](Held kind, const auto& thing) {
    SingleAllocation life = ToLife(kind, thing, measure);
    life.ended_ns = now_ns;
    visit(life);
  };
  const CudaMemory& cuda = state.cuda();
  const auto is_here = [&](const auto& thing) { return thing.slot == slot || IsOfProcess(measure); };
  if (CountsBlocks(measure)) {
    state.blocks().ForEach([&](const TorchBlock& block) {
      if (block.slot == slot) show(Held::kBlock, block);
    });
  }
  cuda.allocations().ForEach([&](const CudaAllocation& allocation) {
    if (is_here(allocation) && Counts(measure, cuda, allocation)) show(Held::kAllocation, allocation);
  });
  cuda.physicals().ForEach([&](const PhysicalHandle& physical) {
    if (is_here(physical) && Counts(measure, cuda, physical)) show(Held::kPhysical, physical);
  });
}

std::optional<SingleAllocation> LifetimePass::Read(Held kind, uint32_t place) const {
  const auto asked = [&](uint32_t slot) {
    if (of_process_) return of_process_;
    return slot < measure_.size() ? measure_[slot] : std::nullopt;
  };
  const CudaMemory& cuda = state().cuda();
  if (kind == Held::kBlock) {
    const TorchBlock& block = state().blocks()[place];
    const std::optional<ViewMeasure> measure = asked(block.slot);
    if (measure && CountsBlocks(*measure)) return ToLife(kind, block, *measure);
  } else if (kind == Held::kAllocation) {
    const CudaAllocation& allocation = cuda.allocations()[place];
    const std::optional<ViewMeasure> measure = asked(allocation.slot);
    if (measure && Counts(*measure, cuda, allocation)) return ToLife(kind, allocation, *measure);
  } else {
    const PhysicalHandle& physical = cuda.physicals()[place];
    const std::optional<ViewMeasure> measure = asked(physical.slot);
    if (measure && Counts(*measure, cuda, physical)) return ToLife(kind, physical, *measure);
  }
  return std::nullopt;
}

uint64_t& LifetimePass::Counter(const SingleAllocation& life) {
  const uint64_t sort = life.kind == Held::kBlock ? 1 : 0;
  const uint64_t key = sort << 63 | static_cast<uint64_t>(life.slot) << 32 | life.thread;
  if (counter_ == nullptr || key != counter_key_) {
    counter_ = &counters_[key];
    counter_key_ = key;
  }
  return *counter_;
}

uint64_t LifetimePass::NumberAt(Held kind, uint32_t place) const {
  const std::vector<uint64_t>& numbers = numbers_[static_cast<size_t>(kind)];
  return place < numbers.size() ? numbers[place] : 0;
}

// What is numbered: all that a device's memory is given out for. As what it counts may show later.
std::optional<SingleAllocation> LifetimePass::ReadNumbered(Held kind, uint32_t place) const {
  constexpr ViewMeasure kAny = ViewMeasure::kDefault;
  if (of_process_) return Read(kind, place);
  if (kind == Held::kBlock) return ToLife(kind, state().blocks()[place], kAny);
  if (kind == Held::kAllocation) {
    const CudaAllocation& allocation = state().cuda().allocations()[place];
    return allocation.on_device ? std::optional<SingleAllocation>(ToLife(kind, allocation, kAny)) : std::nullopt;
  }
  const PhysicalHandle& physical = state().cuda().physicals()[place];
  return physical.imported ? std::nullopt : std::optional<SingleAllocation>(ToLife(kind, physical, kAny));
}

void LifetimePass::OnAlloc(Held kind, uint32_t place) {
  std::vector<uint64_t>& numbers = numbers_[static_cast<size_t>(kind)];
  const bool is_simple = !counts_others_ && gap_ns_ == 0 && !restored_number_;
  if (is_simple && place >= numbers.size()) return;
  uint64_t number = 0;
  if (kind == Held::kAllocation && restored_number_) {
    number = *std::exchange(restored_number_, std::nullopt);
  } else if (const std::optional<SingleAllocation> life = ReadNumbered(kind, place)) {
    if (gap_ns_ != 0 && life->alloc_ns <= gap_ns_) {
      number = kNotShown;
    } else if (counts_others_) {
      number = ++Counter(*life);
    }
  }
  if (place >= numbers.size()) numbers.resize(std::max<size_t>(place + 1, numbers.size() * 2));
  numbers[place] = number;
}

void LifetimePass::OnFree(Held kind, uint32_t place) {
  std::optional<SingleAllocation> life = Read(kind, place);
  if (kind == Held::kAllocation && awaits_correction_ != nullptr) {
    if (life) *awaits_correction_ = Ended{*life, NumberAt(kind, place)};
  } else if (life) {
    Show(*life, NumberAt(kind, place), true);
  }
}

void LifetimePass::Show(SingleAllocation life, uint64_t number, bool freed) {
  if (number == kNotShown) return;
  life.ended_ns = clock_ns_;
  life.freed = freed;
  if (freed && counts_others_) life.others = Counter(life) - number;
  (*visit_)(life);
}

void LifetimePass::ShowAllAlive() {
  state().ForEachPlace([&](Held kind, uint32_t place) {
    if (const std::optional<SingleAllocation> life = Read(kind, place)) Show(*life, NumberAt(kind, place), false);
  });
  for (const auto& [thread, ended] : undone_) Show(ended.life, ended.number, false);
  undone_.clear();
}

void LifetimePass::BeginAll() {
  state().ForEachPlace([&](Held kind, uint32_t place) { OnAlloc(kind, place); });
}

void LifetimePass::BeforeSnapshot() {
  gap_ns_ = clock_ns_;
  ShowAllAlive();
  for (std::vector<uint64_t>& numbers : numbers_) numbers.clear();
}

void LifetimePass::AfterSnapshot(const std::vector<LiveSnapshotBatch>&) {
  BeginAll();
  gap_ns_ = 0;
}

void LifetimePass::ApplyCuda(const EventBatch& batch, size_t i, const EventBatch* following) {
  const uint32_t kind = batch.kind(i);
  std::optional<Ended> ended;
  if (EndsAllocation(kind) && IsTakenBack(batch, i, following, &work_)) awaits_correction_ = &ended;
  const auto undone = kind == trace::FREE_FAILED ? undone_.find(batch.thread(i)) : undone_.end();
  if (undone != undone_.end()) restored_number_ = undone->second.number;
  replay_.state().Apply(batch, i, following);
  awaits_correction_ = nullptr;
  if (ended) undone_[batch.thread(i)] = *ended;
  if (undone == undone_.end()) return;
  // Its place may have been taken meanwhile.
  const bool is_gone = std::exchange(restored_number_, std::nullopt).has_value();
  if (is_gone) Show(undone->second.life, undone->second.number, true);
  undone_.erase(undone);
}

// False where the view ends.
bool LifetimePass::Take(const EventBatch& batch, size_t i, const EventBatch* following) {
  clock_ns_ = std::max(clock_ns_, batch.time_ns(i));
  if (IsMark(batch.kind(i))) [[unlikely]]
    return true;
  if (clock_ns_ > to_ns_) {
    clock_ns_ = to_ns_;
    return false;
  }
  if (batch.layer(i) == trace::TORCH) [[likely]] {
    replay_.state().Apply(batch, i, following);
  } else {
    ApplyCuda(batch, i, following);
  }
  return true;
}

void LifetimePass::Run(const std::vector<AggregatedDevice>& devices, const LifeVisitor& visit,
                       const ProgressCallback& progress) {
  for (const AggregatedDevice& device : devices) {
    if (IsOfProcess(device.measure)) of_process_ = device.measure;
    const uint32_t slot = SlotOfDevice(device.device);
    if (slot >= measure_.size()) measure_.resize(slot + 1);
    measure_[slot] = device.measure;
  }
  visit_ = &visit;
  replay_.Observe(this);
  BeginAll();
  replay_.Run(this, progress);
  ShowAllAlive();
}

}  // namespace gpumem

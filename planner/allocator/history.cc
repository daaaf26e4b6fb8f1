// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/history.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "planner/allocator/beginning.h"
#include "planner/allocator/hindsight.h"
#include "planner/allocator/request_file.h"
#include "replay/state/checkpoints.h"
#include "replay/state/replay.h"

namespace gpumem::plan {
namespace {

constexpr int kOutOfMemory = 2;  // of CUresult and of cudaError_t
constexpr uint64_t kSmallestBlock = 512, kLargestSmall = 1 << 20;
// Torch layer: a block that was freed before can be used again, since other streams had it in use until now.
constexpr uint32_t kLateFree = 51;

class HistoryReader final : public ReplayVisitor, public LifetimeObserver {
 public:
  HistoryReader(const OpenTrace& trace, const Checkpoint& start, bool may_collect, uint64_t until_failure_ns,
                Hindsight* hindsight, HistoryFacts* facts)
      : until_failure_ns_(until_failure_ns),
        replay_(trace.reader, start),
        facts_(facts),
        hindsight_(hindsight),
        reasons_(trace.names),
        may_collect_(may_collect) {}

  void Run(const std::vector<BeginningRange>& beginning, HistoryFiles* files) {
    replay_.Observe(this);
    Begin(beginning, files);
    file_ = &files->requests;
    replay_.Run(this);
    Settle(nullptr, 0);
    for (const auto& [device, bounds] : bounds_) {
      if (const uint64_t room = bounds.Guess(); room != 0) facts_->room.try_emplace(device, room);
    }
    facts_->blocks = numbers_.most();
    facts_->segments = log_.Finish(state());
    for (const DeviceAccount& device : state().accounts().devices) facts_->unknown_frees += device.unknown_frees;
  }

  // Of ReplayVisitor.
  bool Take(const EventBatch& batch, size_t i, const EventBatch* following);
  void BeforeSnapshot() {}
  void AfterSnapshot(const std::vector<LiveSnapshotBatch>& snapshot) {
    ++facts_->gaps;
    AdoptBlocks(BeginningOf(snapshot));
    AdoptOthers();
  }
  void BeginBatch() {
    if (replay_.stream().entry().after_gap) ++facts_->gaps;
  }
  void TakeItems(const std::vector<BatchStream::Item>&) {}

  void OnAlloc(Held kind, uint32_t place) override;
  void OnFree(Held kind, uint32_t place) override;

 private:
  struct LiveBlock {
    uint64_t number = 0;
    bool is_rounded_large = false;
  };
  // Segments that went, for a reason that the next event tells.
  struct Given {
    uint32_t thread = 0;
    ReleaseReason reason = ReleaseReason::kUnknown;
    uint64_t total = 0;  // of its device, before
  };

  const LiveState& state() const { return replay_.state(); }
  void Begin(const std::vector<BeginningRange>& beginning, HistoryFiles* files);
  void AdoptBlocks(const std::vector<BeginningRange>& ranges);
  void AdoptOthers();
  void Settle(const EventBatch* batch, size_t i);
  void AllocBlock(const TorchBlock& block, uint64_t stream, uint64_t capture);
  uint32_t PoolOf(const TorchBlock& block, uint64_t capture);
  void NoteCapture(const TorchBlock& block, uint64_t capture);
  void FreeBlock(uint64_t address);
  void CompleteFree(uint64_t address);
  void NoteFailure(const EventBatch& batch, size_t i);
  uint16_t StreamOf(uint64_t stream);
  void Write(const Request& request) {
    ++facts_->requests;
    facts_->devices = std::max(facts_->devices, request.device + 1);
    file_->Write(request);
    if (second_file_ != nullptr) second_file_->Write(request);
  }
  static uint64_t KeyOf(Held kind, uint32_t place) { return static_cast<uint64_t>(kind) << 32 | place; }
  static uint8_t DeviceByte(uint32_t slot) { return static_cast<uint8_t>(std::max(DeviceOfSlot(slot), 0)); }

  const uint64_t until_failure_ns_;
  Replay replay_;
  RequestFile* file_ = nullptr;
  RequestFile* second_file_ = nullptr;
  HistoryFacts* const facts_;
  Hindsight* const hindsight_;
  ReleaseReasons reasons_;
  const bool may_collect_;  // garbage_collection_threshold is set
  // By address: the number of the last free there, which a late completion is of; and of those known to be late the
  // block's number.
  absl::flat_hash_map<uint64_t, uint64_t> last_free_, in_use_;
  absl::flat_hash_map<uint32_t, uint64_t> capture_of_;  // by segment: which capture it was made in
  std::set<uint32_t> given_pools_;                      // whose segments went with given_
  SegmentLog log_;
  Numbers numbers_;
  absl::flat_hash_map<uint64_t, LiveBlock> blocks_;    // by address
  absl::flat_hash_map<uint64_t, uint64_t> outside_;    // by kind and place: number
  absl::flat_hash_map<uint64_t, uint16_t> stream_of_;  // recorded -> index
  absl::flat_hash_set<uint32_t> failing_;              // threads inside a request whose call of CUDA failed
  std::optional<Given> given_;
  uint64_t rounded_large_ = 0;
  uint32_t thread_ = 0;  // of the event that is applied
  uint64_t stream_ = 0, capture_ = 0, stack_ = 0;
  uint64_t capture_under_way_ = 0;
  uint64_t total_ = 0;  // of its device, before it
  std::map<int, RoomBounds> bounds_;
};

uint16_t HistoryReader::StreamOf(uint64_t stream) {
  if (stream == 0) return 0;
  const auto [found, is_new] = stream_of_.try_emplace(stream, static_cast<uint16_t>(facts_->streams.size()));
  if (is_new && facts_->streams.size() < UINT16_MAX) facts_->streams.push_back(stream);
  return found->second;
}

uint32_t HistoryReader::PoolOf(const TorchBlock& block, uint64_t capture) {
  if (capture == 0 || block.segment.is_none()) return 0;
  const auto [made_in, is_new] = capture_of_.try_emplace(block.segment.value, capture);
  if (!is_new) hindsight_->Join(made_in->second, capture);
  return hindsight_->PoolOf(capture);
}

void HistoryReader::AllocBlock(const TorchBlock& block, uint64_t stream, uint64_t capture) {
  LiveBlock live{numbers_.Take()};
  const uint64_t size = block.requested != 0 ? block.requested : block.size;
  if (block.requested == 0 && block.size > kSmallestBlock) {
    ++facts_->rounded;
    live.is_rounded_large = block.size > kLargestSmall;
    rounded_large_ += live.is_rounded_large ? 1 : 0;
    facts_->rounded_large_most = std::max(facts_->rounded_large_most, rounded_large_);
  }
  ++facts_->allocs;
  blocks_[block.address] = live;
  if (capture != 0) NoteCapture(block, capture);
  Write({RequestKind::kAlloc, DeviceByte(block.slot), StreamOf(stream), PoolOf(block, capture), live.number, size});
}

// No request, so not counted as one.
void HistoryReader::NoteCapture(const TorchBlock& block, uint64_t capture) {
  hindsight_->NoteStack(capture, block.stack);
  const uint64_t owner = hindsight_->IsOfOneCapture(block.stack) ? 0 : capture;
  if (owner == std::exchange(capture_under_way_, owner)) return;
  file_->Write({RequestKind::kCapture, DeviceByte(block.slot), 0, PoolOf(block, capture), owner, 0});
}

void HistoryReader::FreeBlock(uint64_t address) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return;
  const uint64_t number = found->second.number;
  rounded_large_ -= found->second.is_rounded_large ? 1 : 0;
  blocks_.erase(found);
  last_free_[address] = ++facts_->frees;
  if (hindsight_->IsLate(facts_->frees)) {
    in_use_[address] = number;
    return;
  }
  Write({RequestKind::kFree, 0, 0, 0, number, 0});
  numbers_.Return(number);
}

void HistoryReader::CompleteFree(uint64_t address) {
  if (const auto freed = last_free_.find(address); freed != last_free_.end()) hindsight_->AddLate(freed->second);
  const auto found = in_use_.find(address);
  if (found == in_use_.end()) return;
  Write({RequestKind::kFree, 0, 0, 0, found->second, 0});
  numbers_.Return(found->second);
  in_use_.erase(found);
}

// What there was before the first event: once as it lay, and once anew.
void HistoryReader::Begin(const std::vector<BeginningRange>& beginning, HistoryFiles* files) {
  file_ = &files->anew;
  AdoptBlocks(beginning);
  facts_->existing = facts_->allocs;
  facts_->existing_segments = beginning.size();
  absl::flat_hash_map<uint64_t, uint64_t> numbers;
  for (const auto& [address, block] : blocks_) numbers[address] = block.number;
  const RequestNames names{[this](uint64_t stream) { return StreamOf(stream); },
                           [this](uint64_t pool) { return hindsight_->PoolOf(pool); }};
  file_ = &files->beginning;
  WriteBeginning(beginning, numbers, names, &numbers_, [this](const Request& request) { Write(request); });
  for (const BeginningRange& range : beginning) {
    for (const BeginningBlock& block : range.blocks) numbers.erase(block.address);
    facts_->existing_is_expandable |= range.is_expandable;
    auto& [from, to] = facts_->spans.try_emplace(range.device, range.address, range.end()).first->second;
    from = std::min(from, range.address);
    to = std::max(to, range.end());
  }
  state().blocks().ForEach([&](const TorchBlock& block) {  // those whose segment is not known
    const auto left = numbers.find(block.address);
    if (left != numbers.end()) Write({RequestKind::kAlloc, DeviceByte(block.slot), 0, 0, left->second, block.size});
  });
  second_file_ = &files->anew;
  AdoptOthers();
  second_file_ = nullptr;
  log_.Begin();
  facts_->requests = 0;
}

// Makes what is known alive what the state has: at the beginning, and where the trace tells it anew.
void HistoryReader::AdoptBlocks(const std::vector<BeginningRange>& ranges) {
  absl::flat_hash_map<uint64_t, const BeginningRange*> range_of;
  for (const BeginningRange& range : ranges) {
    for (const BeginningBlock& block : range.blocks) range_of[block.address] = &range;
  }
  std::vector<const TorchBlock*> blocks;
  absl::flat_hash_set<uint64_t> there;
  state().blocks().ForEach([&](const TorchBlock& block) {
    blocks.push_back(&block);
    there.insert(block.address);
  });
  std::vector<uint64_t> gone;
  for (const auto& [address, live] : blocks_) {
    if (!there.contains(address)) gone.push_back(address);
  }
  std::sort(gone.begin(), gone.end());
  for (const uint64_t address : gone) FreeBlock(address);
  std::sort(blocks.begin(), blocks.end(),
            [](const TorchBlock* a, const TorchBlock* b) { return a->address < b->address; });
  for (const TorchBlock* block : blocks) {
    if (blocks_.contains(block->address)) continue;
    const auto range = range_of.find(block->address);
    const bool is_known = range != range_of.end();
    AllocBlock(*block, is_known ? range->second->stream : 0, is_known ? range->second->pool : 0);
  }
}

// Memory that is not PyTorch's, and its segments.
void HistoryReader::AdoptOthers() {
  for (const auto& [key, number] : std::exchange(outside_, {})) {
    Write({RequestKind::kOutsideFree, 0, 0, 0, number, 0});
    numbers_.Return(number);
  }
  state().ForEachPlace([&](Held kind, uint32_t place) {
    if (kind != Held::kBlock) OnAlloc(kind, place);
  });
}

void HistoryReader::OnAlloc(Held kind, uint32_t place) {
  log_.OnAlloc(state(), kind, place);
  if (kind == Held::kBlock) return AllocBlock(state().blocks()[place], stream_, capture_);
  uint32_t slot = 0;
  uint64_t size = 0;
  if (kind == Held::kAllocation) {
    const CudaAllocation& allocation = state().cuda().allocations()[place];
    if (allocation.torch || !allocation.on_device || !allocation.counted) return;
    slot = allocation.slot, size = allocation.size;
  } else {
    const PhysicalHandle& physical = state().cuda().physicals()[place];
    if (physical.torch || !physical.counted) return;
    slot = physical.slot, size = physical.size;
  }
  const uint64_t number = numbers_.Take();
  outside_[KeyOf(kind, place)] = number;
  ++facts_->outside;
  Write({RequestKind::kOutsideAlloc, DeviceByte(slot), 0, 0, number, size});
}

void HistoryReader::OnFree(Held kind, uint32_t place) {
  if (kind == Held::kBlock) return FreeBlock(state().blocks()[place].address);
  log_.OnFree(state(), kind, place);
  if (const auto found = outside_.find(KeyOf(kind, place)); found != outside_.end()) {
    Write({RequestKind::kOutsideFree, 0, 0, 0, found->second, 0});
    numbers_.Return(found->second);
    outside_.erase(found);
    return;
  }
  const bool is_segment =
      kind == Held::kAllocation ? state().cuda().allocations()[place].torch : state().cuda().physicals()[place].torch;
  if (is_segment && !failing_.contains(thread_) && !given_.has_value())
    given_ = Given{thread_, reasons_.Of(stack_), total_};
  if (kind != Held::kAllocation) return;
  if (const auto made_in = capture_of_.find(place); made_in != capture_of_.end()) {
    if (given_.has_value()) given_pools_.insert(hindsight_->PoolOf(made_in->second));
    capture_of_.erase(made_in);
  }
}

// What the segments that went before event `i` went for. Within a request to CUDA they make room for it.
void HistoryReader::Settle(const EventBatch* batch, size_t i) {
  if (!given_.has_value()) return;
  const bool is_own = batch != nullptr && batch->thread(i) == given_->thread;
  const uint32_t kind = is_own ? batch->kind(i) : 0;
  const bool is_torch = is_own && batch->layer(i) == trace::TORCH;
  const bool asks = kind == trace::ALLOC || kind == trace::ALLOC_FAILED || kind == trace::PHYSICAL_CREATE;
  if (is_own && !is_torch && !asks) return;  // more of them
  const bool was_for_request = given_->reason == ReleaseReason::kRequest ||
                               (is_own && given_->reason == ReleaseReason::kUnknown &&
                                // One that failed all the same: an import does not say that it failed before, too.
                                (is_torch ? kind == trace::ALLOC_FAILED : may_collect_));
  if (was_for_request) {
    if (asks && !is_torch && !may_collect_) bounds_[batch->device(i)].Refused(given_->total + batch->size(i));
    given_.reset();
    given_pools_.clear();
    return;
  }
  given_.reset();
  ++facts_->empty_caches;
  for (const uint32_t pool : std::exchange(given_pools_, {})) Write({RequestKind::kReleasePool, 0, 0, pool});
  Write({RequestKind::kEmptyCache});
}

// Of a request that was turned down for good, by PyTorch; and of CUDA's own, whose numbers say what room there was.
void HistoryReader::NoteFailure(const EventBatch& batch, size_t i) {
  const uint64_t asked = batch.requested_size(i) != 0 ? batch.requested_size(i) : batch.size(i);
  ++facts_->failed;
  Write({RequestKind::kFailed, DeviceByte(SlotOfDevice(batch.device(i))), StreamOf(batch.stream(i)),
         batch.handle(i) == 0 ? 0 : hindsight_->PoolOf(batch.handle(i)), 0, asked});
}

bool HistoryReader::Take(const EventBatch& batch, size_t i, const EventBatch* following) {
  if (facts_->ends_with_failure && batch.kind(i) != trace::OOM_DEVICE) return false;
  const uint32_t kind = batch.kind(i);
  const bool is_torch = batch.layer(i) == trace::TORCH;
  if (kind == trace::TORCH_LIMIT) facts_->limits[batch.device(i)] = batch.size(i);
  if (kind == trace::OOM_DEVICE) {
    const uint32_t slot = SlotOfDevice(batch.device(i));
    const uint64_t room = batch.size(i) + (slot < state().slots() ? state().values(slot).total : 0);
    const auto [known, is_new] = facts_->room.try_emplace(batch.device(i), room);
    if (!is_new) known->second = std::min(known->second, room);
  }
  if (kind == trace::MARK && std::exchange(capture_under_way_, 0) != 0)
    file_->Write({RequestKind::kCapture, 0, 0, 0, 0, 0});  // what is freed from here on is not within it
  if (IsMark(kind) || IsLabel(kind) || batch.layer(i) == trace::LAYER_UNSPECIFIED) return true;
  thread_ = batch.thread(i);
  stream_ = batch.stream(i);
  capture_ = is_torch ? batch.handle(i) : 0;
  if (kind != trace::PHYSICAL_RELEASE || batch.stack(i) != 0) stack_ = batch.stack(i);  // else that of the unmapping
  const uint32_t slot = SlotOfDevice(batch.device(i));
  total_ = slot < state().slots() ? state().values(slot).total : 0;
  if (batch.device(i) >= 0) bounds_[batch.device(i)].Used(total_);
  Settle(&batch, i);
  if (is_torch && kind == kLateFree) {
    CompleteFree(batch.address(i));
    return true;
  }
  if (is_torch) {
    failing_.erase(thread_);
  } else if (kind == trace::ALLOC_FAILED && batch.result(i) == kOutOfMemory) {
    failing_.insert(thread_);
  }
  replay_.state().Apply(batch, i, following);
  if (is_torch && kind == trace::ALLOC_FAILED) {
    NoteFailure(batch, i);
    facts_->ends_with_failure = until_failure_ns_ != 0 && batch.time_ns(i) >= until_failure_ns_;
  }
  return true;
}

}  // namespace

absl::Status ReadHistory(const OpenTrace& trace, const std::string& path, const std::string& conf,
                         uint64_t until_failure_ns, HistoryFacts* facts) {
  const Checkpoint* const start = trace.checkpoints->Before(0);
  if (start == nullptr) return absl::OkStatus();
  const bool may_collect = absl::StrContains(conf, "garbage_collection_threshold");
  const std::vector<BeginningRange> beginning = ReadBeginning(trace.reader->files().front().path);
  Hindsight hindsight;
  for (bool again = true; again;) {
    *facts = {};
    GPUMEM_ASSIGN_OR_RETURN(HistoryFiles files, HistoryFiles::Create(path));
    trace.reader->Seek(start->place);
    HistoryReader(trace, *start, may_collect, until_failure_ns, &hindsight, facts).Run(beginning, &files);
    GPUMEM_RETURN_IF_ERROR(files.Close());
    again = hindsight.TakeNew();
  }
  return absl::OkStatus();
}

}  // namespace gpumem::plan

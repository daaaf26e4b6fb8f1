// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/snapshot_rest.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "import/dict_rest.h"
#include "import/pickle_writer.h"

namespace gpumem {
namespace {

using ValueType = PickleValue::Type;

constexpr uint64_t kBlockBytes = 64;  // of a block or segment in columns that grow
constexpr int kBlocksOfPart = 64 << 10;
constexpr size_t kRestOfPart = size_t{4} << 20;
constexpr uint64_t kWrittenBytes = 64;  // what is known of a value that was written

enum EntryKey : size_t { kAction, kAddress, kSize, kStream, kTime, kFrames };
enum SegmentKey : size_t {
  kOfDevice,
  kFrom,
  kTotal,
  kAllocated,
  kActive,
  kRequested,
  kOfStream,
  kType,
  kPool,
  kExpandable,
  kStack,
  kBlocks
};
enum BlockKey : size_t { kBegin, kBytes, kAskedFor, kState, kBlockStack };

class SnapshotStates {
 public:
  SnapshotStates(const PickleTree& tree, const TorchSnapshot& snapshot, StackImporter* stacks, ImportMemory* memory,
                 TraceWriter* writer)
      : tree_(tree),
        snapshot_(snapshot),
        stacks_(stacks),
        memory_(memory),
        writer_(writer),
        segments_(&tree, kSegmentKeys, memory),
        blocks_(&tree, kBlockKeys, memory),
        pickle_(&rest_),
        values_(&tree, &pickle_, [this] { return WriteLongRest() && memory_->Spend(kWrittenBytes); }) {}

  absl::Status Write(const std::vector<SnapshotPast>& pasts, uint64_t begin_ns);

 private:
  bool IsNumber(PickleValue value, int64_t number) const {
    const bool is_int =
        value.type() == ValueType::kInt || value.type() == ValueType::kBigInt || value.type() == ValueType::kHugeInt;
    return is_int && tree_.Int(value) == number;
  }
  bool IsNumber(PickleValue value, uint64_t number) const { return IsNumber(value, static_cast<int64_t>(number)); }
  bool IsText(PickleValue value, absl::string_view text) const {
    return value.type() == ValueType::kText && tree_.Text(value) == text;
  }
  bool IsFlag(PickleValue value, bool flag) const {
    return value.type() == ValueType::kBool && tree_.IsTrue(value) == flag;
  }
  bool IsPool(PickleValue value, uint64_t pool) const;
  bool IsStackOf(PickleValue frames, const SnapshotEntry& entry) const {
    return tree_.Place(frames) == tree_.Place(entry.frames) || stacks_->Stack(frames) == stacks_->Stack(entry.frames);
  }
  const PickleValue* List(absl::string_view key) const;

  absl::Status AddSegments();
  void TakeSegment(size_t i, PickleValue dict);
  void TakeBlock(const SnapshotBlock& block, PickleValue dict);
  absl::Status FlushState();
  struct Delay {
    uint64_t index = 0;
    int64_t us = 0;
  };
  void WriteFrees(const std::vector<uint64_t>& open, const std::vector<Delay>& delays);
  bool NoteDelay(uint64_t index, PickleValue value, uint64_t requested_ns, std::vector<Delay>* delays);
  void WriteEntries(size_t device, const SnapshotPast& past, uint64_t begin_ns);
  void WriteTop();
  absl::Status WriteRest();
  bool WriteLongRest();

  const PickleTree& tree_;
  const TorchSnapshot& snapshot_;
  StackImporter* stacks_;
  ImportMemory* memory_;
  TraceWriter* writer_;
  trace::AllocatorState state_;
  uint64_t last_address_ = 0, next_block_ = 0, end_ns_ = 0;
  DictRest segments_, blocks_;
  std::string rest_;
  absl::Status status_;
  PickleWriter pickle_;
  PickledTree values_;
};

bool SnapshotStates::IsPool(PickleValue value, uint64_t pool) const {
  const absl::Span<const PickleValue> numbers = tree_.Items(value);
  return value.type() == ValueType::kTuple && numbers.size() == 2 && IsNumber(numbers[0], pool >> 32) &&
         IsNumber(numbers[1], pool & UINT32_MAX);
}

const PickleValue* SnapshotStates::List(absl::string_view key) const { return tree_.Find(tree_.root(), key); }

void SnapshotStates::TakeBlock(const SnapshotBlock& block, PickleValue dict) {
  blocks_.Take(next_block_++, dict, [&](size_t key, PickleValue value) {
    switch (key) {
      case kBegin:
        return IsNumber(value, last_address_);
      case kBytes:
        return IsNumber(value, block.size);
      case kAskedFor:
        return IsNumber(value, block.requested);
      case kState:
        return IsText(value, SnapshotStateName(block.state));
      default:
        return stacks_->IsExact(value);
    }
  });
  last_address_ += block.size;
  state_.add_block_size(block.size);
  state_.add_block_requested(block.requested);
  state_.add_block_state(static_cast<trace::BlockState>(block.state));
  state_.add_block_stack(stacks_->Stack(block.frames));
}

void SnapshotStates::TakeSegment(size_t i, PickleValue dict) {
  const SnapshotSegment& segment = snapshot_.segments[i];
  uint64_t allocated = 0, active = 0, requested = 0;
  for (const SnapshotBlock& block : segment.blocks) {
    if (block.state == SnapshotBlock::State::kInactive) continue;
    active += block.size;
    requested += block.requested;
    if (block.state == SnapshotBlock::State::kAllocated) allocated += block.size;
  }
  segments_.Take(i, dict, [&](size_t key, PickleValue value) {
    switch (key) {
      case kOfDevice:
        return IsNumber(value, int64_t{segment.device});
      case kFrom:
        return IsNumber(value, segment.address);
      case kTotal:
        return IsNumber(value, segment.size);
      case kAllocated:
        return IsNumber(value, allocated);
      case kActive:
        return IsNumber(value, active);
      case kRequested:
        return IsNumber(value, requested);
      case kOfStream:
        return IsNumber(value, segment.stream);
      case kType:
        return IsText(value, segment.is_small ? "small" : "large");
      case kPool:
        return IsPool(value, segment.pool);
      case kExpandable:
        return IsFlag(value, segment.is_expandable);
      case kStack:
        return stacks_->IsExact(value);
      default:
        return value.type() == ValueType::kList;
    }
  });
  state_.add_segment_device(segment.device);
  state_.add_segment_size(segment.size);
  state_.add_segment_stream(segment.stream);
  state_.add_segment_pool(segment.pool);
  state_.add_segment_stack(stacks_->Stack(segment.frames));
  state_.add_segment_flags((segment.is_small ? 1u : 0u) | (segment.is_expandable ? 2u : 0u));
  state_.add_segment_blocks(static_cast<uint32_t>(segment.blocks.size()));
}

absl::Status SnapshotStates::FlushState() {
  state_.set_time_ns(end_ns_);
  return writer_->AddAllocatorState(std::exchange(state_, {}));
}

absl::Status SnapshotStates::AddSegments() {
  const PickleValue root = tree_.root();
  const PickleValue* const list = root.is_sequence() ? &root : List("segments");
  if (list == nullptr) return absl::OkStatus();
  const absl::Span<const PickleValue> dicts = tree_.Items(*list);
  uint64_t previous = 0;
  for (size_t i = 0; i < snapshot_.segments.size(); ++i) {
    const SnapshotSegment& segment = snapshot_.segments[i];
    if (!memory_->Spend(kBlockBytes * (1 + segment.blocks.size()))) return memory_->TooMuch();
    state_.add_segment_address_delta(static_cast<int64_t>(segment.address - previous));
    previous = segment.address;
    TakeSegment(i, dicts[i]);
    const PickleValue* const blocks = tree_.Find(dicts[i], "blocks");
    last_address_ = segment.address;
    for (size_t b = 0; b < segment.blocks.size(); ++b) {
      TakeBlock(segment.blocks[b], tree_.Items(*blocks)[b]);
      if (state_.block_size_size() >= kBlocksOfPart) GPUMEM_RETURN_IF_ERROR(FlushState());
    }
  }
  return absl::OkStatus();
}

// False: a delay after its free_requested cannot say this time of a free_completed.
bool SnapshotStates::NoteDelay(uint64_t index, PickleValue value, uint64_t requested_ns, std::vector<Delay>* delays) {
  if (value.type() != ValueType::kInt) return false;
  const int64_t us = *tree_.Int(value) - static_cast<int64_t>(requested_ns / 1000);
  if (us != 0 && memory_->Spend(sizeof(Delay) * 3 / 2)) delays->push_back({index, us});
  return true;
}

// A device's entries, beside the events that SnapshotEvents makes of them.
void SnapshotStates::WriteEntries(size_t device, const SnapshotPast& past, uint64_t begin_ns) {
  const std::vector<SnapshotEntry>& trace = snapshot_.traces[device];
  const absl::Span<const PickleValue> dicts = tree_.Items(tree_.Items(*List("device_traces"))[device]);
  DictRest rest(&tree_, kEntryKeys, memory_);
  std::vector<uint64_t> open;
  std::vector<Delay> delays;
  uint64_t time_ns = begin_ns, written_ns = 0;
  const SnapshotEntry* written = nullptr;  // what the last event was made from
  for (size_t i = 0; i < trace.size() && !memory_->is_over(); ++i) {
    const SnapshotEntry& entry = trace[i];
    time_ns = std::max(time_ns, SnapshotTimeNs(entry));
    const bool completes = past.completes_previous(i);
    if (!completes && !past.is_event(i)) {
      rest.TakeWhole(i, dicts[i]);
      written = nullptr;
      continue;
    }
    if (!completes) written = &entry, written_ns = time_ns;
    const absl::string_view action = entry.action == SnapshotAction::kAlloc    ? "alloc"
                                     : completes || past.is_late_completion(i) ? "free_completed"
                                                                               : "free_requested";
    rest.Take(i, dicts[i], [&](size_t key, PickleValue value) {
      switch (key) {
        case kAction:
          return IsText(value, action);
        case kAddress:
          return IsNumber(value, written->address);
        case kSize:
          return IsNumber(value, written->size);
        case kStream:
          return IsNumber(value, snapshot_.owners[written->owner].stream);
        case kTime:
          return completes ? NoteDelay(i, value, written_ns, &delays) : IsNumber(value, written_ns / 1000);
        default:
          return stacks_->IsExact(value) && IsStackOf(value, *written);
      }
    });
    const bool is_followed = i + 1 < trace.size() && past.completes_previous(i + 1);
    if (past.is_free(i) && !is_followed && memory_->Spend(sizeof i * 2)) open.push_back(i);
  }
  rest.WriteTo(&pickle_, &values_);
  WriteFrees(open, delays);
  pickle_.EndDict();
}

void SnapshotStates::WriteFrees(const std::vector<uint64_t>& open, const std::vector<Delay>& delays) {
  pickle_.Text("open");
  pickle_.BeginList();
  for (const uint64_t i : open) {
    pickle_.Item();
    pickle_.Number(i);
    WriteLongRest();
  }
  pickle_.EndList();
  pickle_.Text("delays");
  pickle_.BeginList();
  uint64_t last = 0;
  for (const Delay& delay : delays) {
    pickle_.Item();
    pickle_.Number(delay.index - std::exchange(last, delay.index));
    pickle_.Item();
    pickle_.Signed(delay.us);
    WriteLongRest();
  }
  pickle_.EndList();
}

// The snapshot's other values; of a list, as 1.13 wrote it, no keys.
void SnapshotStates::WriteTop() {
  const absl::Span<const PickleValue> keys = tree_.Keys(tree_.root()), values = tree_.Values(tree_.root());
  pickle_.Text("keys");
  pickle_.BeginList();
  for (const PickleValue key : keys) {
    pickle_.Item();
    values_.Write(key);
  }
  pickle_.EndList();
  pickle_.Text("top");
  pickle_.BeginDict();
  for (size_t i = 0; i < keys.size(); ++i) {
    const absl::string_view key = tree_.Text(keys[i]);
    if (key == "segments" || key == "device_traces") continue;
    values_.Write(keys[i]);
    values_.Write(values[i]);
  }
  pickle_.EndDict();
}

// What is there of the rest, with what is there of the columns.
absl::Status SnapshotStates::WriteRest() {
  for (size_t at = 0; at < rest_.size(); at += kRestOfPart) {
    state_.set_rest(rest_.substr(at, kRestOfPart));
    GPUMEM_RETURN_IF_ERROR(FlushState());
  }
  rest_.clear();
  return absl::OkStatus();
}

bool SnapshotStates::WriteLongRest() {
  if (rest_.size() >= kRestOfPart && status_.ok()) status_ = WriteRest();
  return status_.ok();
}

absl::Status SnapshotStates::Write(const std::vector<SnapshotPast>& pasts, uint64_t begin_ns) {
  end_ns_ = begin_ns;
  for (const auto& trace : snapshot_.traces) {
    if (!trace.empty()) end_ns_ = std::max(end_ns_, SnapshotTimeNs(trace.back()));
  }
  GPUMEM_RETURN_IF_ERROR(AddSegments());
  pickle_.Begin();
  pickle_.BeginDict();
  WriteTop();
  pickle_.Text("segments");
  segments_.WriteTo(&pickle_, &values_);
  pickle_.EndDict();
  pickle_.Text("blocks");
  blocks_.WriteTo(&pickle_, &values_);
  pickle_.EndDict();
  pickle_.Text("traces");
  pickle_.BeginList();
  for (size_t device = 0; device < snapshot_.traces.size(); ++device) {
    pickle_.Item();
    WriteEntries(device, pasts[device], begin_ns);
  }
  pickle_.EndList();
  pickle_.EndDict();
  pickle_.End();
  if (memory_->is_over()) return memory_->TooMuch();
  GPUMEM_RETURN_IF_ERROR(status_);
  return WriteRest();
}

}  // namespace

absl::Status AddSnapshotState(const PickleTree& tree, const TorchSnapshot& snapshot,
                              const std::vector<SnapshotPast>& pasts, uint64_t begin_ns, StackImporter* stacks,
                              ImportMemory* memory, TraceWriter* writer) {
  return SnapshotStates(tree, snapshot, stacks, memory, writer).Write(pasts, begin_ns);
}

}  // namespace gpumem

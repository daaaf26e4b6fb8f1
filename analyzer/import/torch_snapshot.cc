// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/torch_snapshot.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

using ValueType = PickleValue::Type;

constexpr size_t kMostSnapshotDevices = 1024;
constexpr uint64_t kLeastEntryBytes = 12;  // of an entry in a file: an empty dict with its keys and values by reference
constexpr uint64_t kAlwaysEntries = 1000;
// What an entry or a segment takes here, and in SnapshotPast and SnapshotEvents; SnapshotPast counts live blocks
// itself.
constexpr uint64_t kEntryMemory = sizeof(SnapshotEntry) + 24;
constexpr uint64_t kSegmentMemory = 160;
static_assert(kSegmentMemory >= sizeof(SnapshotSegment) && kSegmentMemory >= 2 * sizeof(SnapshotBlock) &&
              kSegmentMemory >= sizeof(SnapshotAnnotation));
constexpr size_t kMostOwners = size_t{1} << 20;
constexpr size_t kMostKeys = 256;  // of a dict that is looked at as often as the file refers to it
constexpr size_t kMostSettings = 64, kMostText = 4096;
constexpr absl::string_view kWriteAnew = "Write it with torch.cuda.memory._dump_snapshot()";

SnapshotAction ActionOf(absl::string_view name) {
  static constexpr std::pair<absl::string_view, SnapshotAction> kActions[] = {
      {"alloc", SnapshotAction::kAlloc},
      {"free_requested", SnapshotAction::kFreeRequested},
      {"free_completed", SnapshotAction::kFreeCompleted},
      {"segment_alloc", SnapshotAction::kSegmentAlloc},
      {"segment_free", SnapshotAction::kSegmentFree},
      {"segment_map", SnapshotAction::kSegmentMap},
      {"segment_unmap", SnapshotAction::kSegmentUnmap},
      {"snapshot", SnapshotAction::kSnapshot},
      {"workspace_snapshot", SnapshotAction::kSnapshot},
      {"oom", SnapshotAction::kOom},
      {"annotate", SnapshotAction::kAnnotate},
  };
  for (const auto& [text, action] : kActions) {
    if (text == name) return action;
  }
  return SnapshotAction::kOther;
}

// As Python prints it, one level deep.
std::string Printed(const PickleTree& tree, PickleValue value) {
  switch (value.type()) {
    case ValueType::kNone:
      return "None";
    case ValueType::kBool:
      return value.payload() != 0 ? "True" : "False";
    case ValueType::kText:
      return std::string(tree.Text(value));
    case ValueType::kFloat:
      return absl::StrCat(*tree.Number(value));
    case ValueType::kDict:
    case ValueType::kList:
    case ValueType::kTuple:
      return "...";
    default:
      return absl::StrCat(tree.Int(value).value_or(0));
  }
}

class SnapshotReader {
 public:
  SnapshotReader(const PickleTree& tree, uint64_t file_bytes, ImportMemory* memory)
      : tree_(tree), memory_(memory), most_(kAlwaysEntries + file_bytes / kLeastEntryBytes) {}

  absl::StatusOr<TorchSnapshot> Read();

 private:
  struct Keys {
    explicit Keys(const PickleTree& tree)
        : action(tree.Key("action")),
          addr(tree.Key("addr")),
          size(tree.Key("size")),
          stream(tree.Key("stream")),
          time_us(tree.Key("time_us")),
          frames(tree.Key("frames")),
          device_free(tree.Key("device_free")),
          pool(tree.Key("pool_id")),
          segment_pool(tree.Key("segment_pool_id")) {}
    std::optional<PickleValue> action, addr, size, stream, time_us, frames, device_free, pool, segment_pool;
  };

  // Counts what is read; false: more than the file can hold, or than may be kept.
  bool Count(size_t entries, uint64_t memory_each = kSegmentMemory) {
    return (read_ += entries) <= most_ && memory_->Spend(entries * memory_each);
  }
  absl::Status TooMany() const {
    if (memory_->is_over()) return memory_->TooMuch();
    return absl::DataLossError(
        absl::StrCat("refers to its lists more often than it can have written them. ", kWriteAnew));
  }
  bool HasManyKeys(PickleValue dict) const { return tree_.Keys(dict).size() > kMostKeys; }
  uint64_t Number(PickleValue dict, const std::optional<PickleValue>& key) const {
    const PickleValue* const value = tree_.Find(dict, key);
    return value == nullptr ? 0 : static_cast<uint64_t>(tree_.Int(*value).value_or(0));
  }
  PickleValue Value(PickleValue dict, const std::optional<PickleValue>& key) const {
    const PickleValue* const value = tree_.Find(dict, key);
    return value == nullptr ? PickleValue() : *value;
  }
  // Of a list of snapshots, or a dict of them; 0 = it is none.
  size_t SnapshotsIn(PickleValue root) const {
    const absl::Span<const PickleValue> items = root.is_sequence() ? tree_.Items(root) : tree_.Values(root);
    return static_cast<size_t>(std::count_if(items.begin(), items.end(), [this](PickleValue item) {
      return tree_.Find(item, "segments") != nullptr && tree_.Find(item, "device_traces") != nullptr;
    }));
  }
  uint64_t Pool(PickleValue dict) const;
  uint32_t OwnerOf(uint64_t stream, uint64_t pool);
  absl::Status ReadSegments(PickleValue list, std::vector<SnapshotSegment>* segments);
  SnapshotBlock ReadBlock(PickleValue dict, uint64_t at);
  absl::Status ReadTraces(PickleValue lists);
  // `of`: whose the entries are, "device 0".
  absl::Status ReadEntries(absl::Span<const PickleValue> dicts, const std::string& of, std::vector<SnapshotEntry>* to);
  absl::StatusOr<SnapshotEntry> ReadEntry(PickleValue dict);
  absl::Status ReadAnnotations(PickleValue list);
  absl::Status ReadSettings(PickleValue dict);
  absl::Status ReadHost();

  const PickleTree& tree_;
  ImportMemory* memory_;
  uint64_t most_, read_ = 0;
  std::optional<Keys> keys_;
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, uint32_t> owners_;  // stream, pool
  TorchSnapshot snapshot_;
};

// A pair of numbers, (0, 0) for none.
uint64_t SnapshotReader::Pool(PickleValue dict) const {
  const PickleValue* pair = tree_.Find(dict, keys_->segment_pool);
  if (pair == nullptr) pair = tree_.Find(dict, keys_->pool);
  if (pair == nullptr) return 0;
  const absl::Span<const PickleValue> numbers = tree_.Items(*pair);
  if (numbers.size() != 2) return 0;
  return static_cast<uint64_t>(tree_.Int(numbers[0]).value_or(0)) << 32 |
         static_cast<uint32_t>(tree_.Int(numbers[1]).value_or(0));
}

// More than all that a program can have are the first one: their memory is nobody's.
uint32_t SnapshotReader::OwnerOf(uint64_t stream, uint64_t pool) {
  if (owners_.size() >= kMostOwners) return 0;
  const auto [known, is_new] = owners_.try_emplace({stream, pool}, static_cast<uint32_t>(snapshot_.owners.size()));
  if (is_new) snapshot_.owners.push_back({stream, pool});
  return known->second;
}

SnapshotBlock SnapshotReader::ReadBlock(PickleValue dict, uint64_t at) {
  SnapshotBlock block;
  const absl::string_view state = tree_.Text(dict, "state");
  block.state = state == "active_allocated"                                         ? SnapshotBlock::State::kAllocated
                : state == "active_pending_free" || state == "active_awaiting_free" ? SnapshotBlock::State::kPendingFree
                                                                                    : SnapshotBlock::State::kInactive;
  block.address = static_cast<uint64_t>(tree_.Int(dict, "address", static_cast<int64_t>(at)));
  block.size = Number(dict, keys_->size);
  block.requested = static_cast<uint64_t>(tree_.Int(dict, "requested_size"));
  block.frames = Value(dict, keys_->frames);
  // Until 2.0: a list of what was there, the newest first.
  if (const PickleValue* const history = tree_.Find(dict, "history"); history != nullptr) {
    if (const absl::Span<const PickleValue> items = tree_.Items(*history); !items.empty()) {
      block.frames = Value(items[0], keys_->frames);
      if (block.requested == 0) block.requested = static_cast<uint64_t>(tree_.Int(items[0], "real_size"));
    }
  }
  snapshot_.has_stacks |= !tree_.Items(block.frames).empty();
  return block;
}

absl::Status SnapshotReader::ReadSegments(PickleValue list, std::vector<SnapshotSegment>* segments) {
  if (!list.is_sequence()) return absl::DataLossError(absl::StrCat("\"segments\" is not a list. ", kWriteAnew));
  const absl::Span<const PickleValue> dicts = tree_.Items(list);
  if (!Count(dicts.size())) return TooMany();
  segments->reserve(dicts.size());
  for (const PickleValue dict : dicts) {
    if (dict.type() != ValueType::kDict || HasManyKeys(dict))
      return absl::DataLossError(absl::StrCat("a segment is not a dict, or none of PyTorch's. ", kWriteAnew));
    SnapshotSegment segment;
    segment.device = static_cast<int>(std::clamp<int64_t>(tree_.Int(dict, "device"), 0, kMostSnapshotDevices - 1));
    segment.address = static_cast<uint64_t>(tree_.Int(dict, "address"));
    segment.size = static_cast<uint64_t>(tree_.Int(dict, "total_size"));
    segment.stream = Number(dict, keys_->stream);
    segment.pool = Pool(dict);
    segment.is_small = tree_.Text(dict, "segment_type") == "small";
    const PickleValue* const expandable = tree_.Find(dict, "is_expandable");
    segment.is_expandable = expandable != nullptr && tree_.IsTrue(*expandable);
    segment.frames = Value(dict, keys_->frames);
    if (segment.address + segment.size < segment.address)
      return absl::DataLossError(absl::StrCat("a segment ends behind all addresses. ", kWriteAnew));
    const PickleValue* const blocks = tree_.Find(dict, "blocks");
    const absl::Span<const PickleValue> items =
        blocks == nullptr ? absl::Span<const PickleValue>() : tree_.Items(*blocks);
    if (!Count(items.size())) return TooMany();
    segment.blocks.reserve(items.size());
    uint64_t at = segment.address;
    for (const PickleValue item : items) {
      if (HasManyKeys(item)) return absl::DataLossError(absl::StrCat("a block is none of PyTorch's. ", kWriteAnew));
      const SnapshotBlock block = ReadBlock(item, at);
      at = block.address + block.size;
      if (at < block.address || block.requested > UINT64_MAX / 2)
        return absl::DataLossError(absl::StrCat("a block ends behind all addresses. ", kWriteAnew));
      segment.blocks.push_back(block);
    }
    segments->push_back(std::move(segment));
  }
  return absl::OkStatus();
}

absl::StatusOr<SnapshotEntry> SnapshotReader::ReadEntry(PickleValue dict) {
  const PickleValue* const action = HasManyKeys(dict) ? nullptr : tree_.Find(dict, keys_->action);
  if (action == nullptr || action->type() != ValueType::kText) return absl::DataLossError("has no action");
  SnapshotEntry entry;
  entry.action = ActionOf(tree_.Text(*action));
  if (entry.action == SnapshotAction::kOther) {
    ++snapshot_.unknown_actions;
    return entry;
  }
  entry.address = Number(dict, entry.action == SnapshotAction::kOom ? keys_->device_free : keys_->addr);
  entry.size = Number(dict, keys_->size);
  entry.time_us = static_cast<int64_t>(Number(dict, keys_->time_us));
  entry.frames = Value(dict, keys_->frames);
  entry.owner = OwnerOf(Number(dict, keys_->stream), Pool(dict));
  if (entry.address + entry.size < entry.address && entry.action != SnapshotAction::kOom)
    return absl::DataLossError("ends behind all addresses");
  snapshot_.has_times |= entry.time_us != 0;
  snapshot_.has_stacks |= !tree_.Items(entry.frames).empty();
  return entry;
}

absl::Status SnapshotReader::ReadEntries(absl::Span<const PickleValue> dicts, const std::string& of,
                                         std::vector<SnapshotEntry>* to) {
  if (!Count(dicts.size(), kEntryMemory)) return TooMany();
  to->reserve(to->size() + dicts.size());
  for (size_t i = 0; i < dicts.size(); ++i) {
    const absl::StatusOr<SnapshotEntry> entry = ReadEntry(dicts[i]);
    if (!entry.ok())
      return absl::DataLossError(
          absl::StrCat("entry ", i, " of ", of, " ", entry.status().message(), ". ", kWriteAnew));
    to->push_back(*entry);
  }
  return absl::OkStatus();
}

absl::Status SnapshotReader::ReadTraces(PickleValue lists) {
  const absl::Span<const PickleValue> devices = tree_.Items(lists);
  if (devices.size() > kMostSnapshotDevices)
    return absl::DataLossError(absl::StrCat(devices.size(), " devices. ", kWriteAnew));
  snapshot_.traces.resize(devices.size());
  for (size_t device = 0; device < devices.size(); ++device) {
    std::vector<SnapshotEntry>& trace = snapshot_.traces[device];
    GPUMEM_RETURN_IF_ERROR(ReadEntries(tree_.Items(devices[device]), absl::StrCat("device ", device), &trace));
    snapshot_.has_traces |= !trace.empty();
    snapshot_.entries += static_cast<uint64_t>(std::count_if(
        trace.begin(), trace.end(), [](const SnapshotEntry& entry) { return entry.action != SnapshotAction::kOther; }));
  }
  return absl::OkStatus();
}

absl::Status SnapshotReader::ReadAnnotations(PickleValue list) {
  const absl::Span<const PickleValue> items = tree_.Items(list);
  if (!Count(items.size())) return TooMany();
  for (const PickleValue item : items) {
    SnapshotAnnotation annotation;
    const absl::string_view stage = HasManyKeys(item) ? "" : tree_.Text(item, "stage");
    if (stage != "START" && stage != "END") continue;
    annotation.is_start = stage == "START";
    annotation.device = static_cast<int>(std::clamp<int64_t>(tree_.Int(item, "device"), 0, kMostSnapshotDevices - 1));
    annotation.time_us = tree_.Int(item, "time_us");
    if (const PickleValue* const name = tree_.Find(item, "name")) annotation.name = *name;
    snapshot_.annotations.push_back(annotation);
  }
  return absl::OkStatus();
}

absl::Status SnapshotReader::ReadSettings(PickleValue dict) {
  if (dict.type() != ValueType::kDict) return absl::OkStatus();
  const absl::Span<const PickleValue> names = tree_.Keys(dict), values = tree_.Values(dict);
  if (!Count(names.size())) return TooMany();
  for (size_t i = 0; i < names.size(); ++i) {
    const absl::string_view name = tree_.Text(names[i]);
    if (name.empty()) continue;
    if (name == "PYTORCH_CUDA_ALLOC_CONF" || name == "PYTORCH_ALLOC_CONF") {
      if (snapshot_.conf.empty()) snapshot_.conf = std::string(tree_.Text(values[i]).substr(0, kMostText));
    } else if (!values[i].is_container() && snapshot_.settings.size() < kMostSettings) {
      snapshot_.settings[std::string(name.substr(0, kMostText))] = Printed(tree_, values[i]).substr(0, kMostText);
    }
  }
  snapshot_.max_split_size = tree_.Int(dict, "max_split_size", -1);
  const PickleValue* const divisions = tree_.Find(dict, "roundup_power2_divisions");
  if (divisions == nullptr || divisions->type() != ValueType::kDict) return absl::OkStatus();
  constexpr int kIntervals = 16;
  std::vector<std::string> shown;
  for (int i = 0; i < kIntervals; ++i) {
    const int64_t value = tree_.Int(*divisions, absl::StrCat(1 << i));
    snapshot_.roundup_divisions.push_back(static_cast<uint64_t>(std::max<int64_t>(value, 0)));
    if (value != 0) shown.push_back(absl::StrCat(1 << i, ":", value));
  }
  if (!shown.empty()) snapshot_.settings["roundup_power2_divisions"] = absl::StrJoin(shown, ",");
  return absl::OkStatus();
}

// One list: the memory is of no device.
absl::Status SnapshotReader::ReadHost() {
  if (const PickleValue* const segments = tree_.Find(tree_.root(), "host_segments"))
    GPUMEM_RETURN_IF_ERROR(ReadSegments(*segments, &snapshot_.host_segments));
  const PickleValue* const trace = tree_.Find(tree_.root(), "host_traces");
  if (trace == nullptr) return absl::OkStatus();
  return ReadEntries(tree_.Items(*trace), "pinned host memory", &snapshot_.host_trace);
}

absl::StatusOr<TorchSnapshot> SnapshotReader::Read() {
  OwnerOf(0, 0);
  keys_.emplace(tree_);
  const PickleValue root = tree_.root();
  const PickleValue* const segments = root.is_sequence() ? &root : tree_.Find(root, "segments");
  const PickleValue* const traces = tree_.Find(root, "device_traces");
  const bool is_list = root.is_sequence() && (tree_.Items(root).empty() || tree_.Find(tree_.Items(root)[0], "blocks"));
  if (const size_t several = SnapshotsIn(root); several != 0) {
    return absl::DataLossError(
        absl::StrCat("is a pickle with ", FormatCountOf(several, "snapshot", "snapshots"),
                     " in a list or dict. Write each into a file of its own: pickle.dump(snapshot, file)"));
  }
  if ((segments == nullptr && traces == nullptr) || (root.is_sequence() && !is_list)) {
    return absl::DataLossError(
        absl::StrCat("is a pickle, but no memory snapshot: it has no \"segments\". ", kWriteAnew));
  }
  if (segments != nullptr) GPUMEM_RETURN_IF_ERROR(ReadSegments(*segments, &snapshot_.segments));
  if (traces != nullptr) GPUMEM_RETURN_IF_ERROR(ReadTraces(*traces));
  if (const PickleValue* const list = tree_.Find(root, "external_annotations"))
    GPUMEM_RETURN_IF_ERROR(ReadAnnotations(*list));
  if (const PickleValue* const dict = tree_.Find(root, "allocator_settings"))
    GPUMEM_RETURN_IF_ERROR(ReadSettings(*dict));
  GPUMEM_RETURN_IF_ERROR(ReadHost());
  return std::move(snapshot_);
}

}  // namespace

absl::string_view SnapshotStateName(SnapshotBlock::State state) {
  return state == SnapshotBlock::State::kAllocated     ? "active_allocated"
         : state == SnapshotBlock::State::kPendingFree ? "active_pending_free"
                                                       : "inactive";
}

uint64_t SnapshotTimeNs(const SnapshotEntry& entry) {
  return static_cast<uint64_t>(std::clamp<int64_t>(entry.time_us, 0, INT64_MAX / 1000)) * 1000;
}

absl::StatusOr<TorchSnapshot> ReadTorchSnapshot(const PickleTree& tree, uint64_t file_bytes, ImportMemory* memory) {
  return SnapshotReader(tree, file_bytes, memory).Read();
}

}  // namespace gpumem

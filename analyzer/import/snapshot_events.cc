// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/snapshot_events.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shared/event.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr size_t kDeepest = 1024;  // as the reader shows
constexpr int64_t kLastLine = 1 << 30;
constexpr size_t kLongestFrameName = 1024;  // so that the frames of one stack fit into what readers take at once

}  // namespace

bool IsPythonFile(absl::string_view file) {
  if (file.empty() || file == "??") return false;
  if (file[0] == '<') return true;  // <string>, <frozen importlib._bootstrap>
  for (const absl::string_view ending : {".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hpp", ".cuh", ".inl", ".S"}) {
    if (absl::EndsWith(file, ending)) return false;
  }
  const absl::string_view base = file.substr(file.rfind('/') + 1);
  if (absl::EndsWith(base, ".py")) return true;
  return !absl::StrContains(base, ".so") && absl::StrContains(file, '/') && absl::StrContains(base, '.');
}

StackImporter::StackImporter(const PickleTree* tree, DefinitionBuilder* definitions)
    : tree_(tree),
      definitions_(definitions),
      filename_(tree->Key("filename")),
      name_(tree->Key("name")),
      line_(tree->Key("line")) {}

StackImporter::Found StackImporter::Frame(PickleValue frame) {
  if (frame.type() != PickleValue::Type::kDict || tree_->Keys(frame).empty()) return {0, false};
  const auto [known, is_new] = frames_.try_emplace(tree_->Place(frame));
  if (!is_new) return known->second;
  bool is_exact = tree_->Keys(frame).size() == 3;
  const auto text = [&](const std::optional<PickleValue>& key) {
    const PickleValue* const value = tree_->Find(frame, key);
    const absl::string_view all = value == nullptr ? absl::string_view() : tree_->Text(*value);
    is_exact &= value != nullptr && value->type() == PickleValue::Type::kText && all.size() <= kLongestFrameName &&
                ValidText(all) == all;
    return all.substr(0, kLongestFrameName);
  };
  const absl::string_view file = text(filename_), name = text(name_);
  if (file.empty() && name.empty()) return known->second = {0, false};
  const PickleValue* const number = tree_->Find(frame, line_);
  const int64_t line = number == nullptr ? 0 : tree_->Int(*number).value_or(0);
  const auto shown = static_cast<uint32_t>(std::clamp<int64_t>(line, 0, kLastLine));
  is_exact &= number != nullptr && number->type() == PickleValue::Type::kInt && shown == line;
  const bool is_python = IsPythonFile(file);
  const bool is_named = is_python || (!file.empty() && !name.empty());
  known->second = {is_python ? definitions_->PythonFrame(file, name, shown)
                             : definitions_->NativeFrame(file == "??" ? "" : file, name, shown),
                   is_exact && is_named};
  return known->second;
}

StackImporter::Found StackImporter::Look(PickleValue frames) {
  absl::Span<const PickleValue> list = tree_->Items(frames);
  if (!frames.is_sequence() || list.empty()) return {};
  const auto [known, is_new] = stacks_.try_emplace(list.data());
  if (!is_new) return known->second;
  Found stack{0, list.size() <= kDeepest};
  list = list.subspan(0, std::min(list.size(), kDeepest));
  for (size_t i = list.size(); i-- > 0;) {
    const Found frame = Frame(list[i]);
    stack.is_exact &= frame.is_exact;
    if (frame.stack != 0) stack.stack = definitions_->Stack(stack.stack, static_cast<uint32_t>(frame.stack));
  }
  return known->second = stack;
}

namespace {

constexpr int kOutOfMemory = 2;  // of cudaError_t
// Each unmapping cuts what is mapped there; PyTorch maps and unmaps the same pieces, so this is never reached.
constexpr uint64_t kMostPartsOfEntry = 4, kAlwaysParts = 1u << 20, kMostPartsOfMapping = 65536;

constexpr absl::string_view kTorchMalloc = "CUDACachingAllocator::malloc";
constexpr absl::string_view kTorchFree = "CUDACachingAllocator::free";

}  // namespace

SnapshotEvents::SnapshotEvents(const PickleTree& tree, const TorchSnapshot& snapshot,
                               const std::vector<SnapshotPast>& pasts, StackImporter* stacks, ImportMemory* memory,
                               TraceWriter* writer)
    : tree_(tree),
      snapshot_(snapshot),
      memory_(memory),
      writer_(writer),
      stacks_(stacks),
      ranges_(pasts.size()),
      tags_(pasts.size()),
      metadata_(tree.Key("user_metadata")),
      compiled_(tree.Key("compile_context")) {
  if (const PickleValue* const traces = tree.Find(tree.root(), "device_traces")) {
    for (const PickleValue trace : tree.Items(*traces)) dicts_.push_back(tree.Items(trace));
  }
  for (size_t device = 0; device < pasts.size(); ++device) PlanRanges(pasts[device], device);
}

void SnapshotEvents::PlanRanges(const SnapshotPast& past, size_t device) {
  DeviceRanges& ranges = ranges_[device];
  absl::btree_map<uint64_t, uint64_t> all(past.mapped());
  if (device < snapshot_.traces.size()) {
    for (const SnapshotEntry& entry : snapshot_.traces[device]) {
      const uint64_t end = entry.address + entry.size;
      if (entry.action == SnapshotAction::kSegmentMap) {
        uint64_t& to = all[entry.address];
        to = std::max(to, end);
      } else if (entry.action == SnapshotAction::kSegmentUnmap) {
        ranges.cuts.insert(entry.address);
        ranges.cuts.insert(end);
      }
    }
  }
  for (const auto& [from, to] : all) {
    if (!ranges.reserved.empty() && ranges.reserved.rbegin()->second >= from) {
      uint64_t& end = ranges.reserved.rbegin()->second;
      end = std::max(end, to);
    } else {
      ranges.reserved[from] = to;
    }
  }
}

EventRow SnapshotEvents::RowOf(const SnapshotEntry& entry, int device, uint64_t time_ns) {
  EventRow row;
  row.time_ns = time_ns;
  row.device = device;
  row.address = entry.address;
  row.size = entry.size;
  row.stream = snapshot_.owners[entry.owner].stream;
  row.thread = static_cast<uint32_t>(device) + 1;
  row.stack = stacks_->Stack(entry.frames);
  return row;
}

absl::Status SnapshotEvents::AddMappings(const EventRow& like, std::vector<EventRow>* rows) {
  DeviceRanges& ranges = ranges_[static_cast<size_t>(like.device)];
  const uint64_t end = like.address + like.size, most = last_handle_ + kMostPartsOfMapping;
  for (uint64_t at = like.address; at < end;) {
    const auto cut = ranges.cuts.upper_bound(at);
    const uint64_t to = cut == ranges.cuts.end() ? end : std::min(end, *cut);
    if (last_handle_ > std::min(most, kAlwaysParts + kMostPartsOfEntry * snapshot_.entries))
      return absl::DataLossError("unmaps memory in more pieces than it can have mapped. Write it anew");
    EventRow row = like;
    row.layer = trace::DRIVER;
    row.address = 0;
    row.size = to - at;
    row.handle = ++last_handle_;
    row.kind = trace::PHYSICAL_CREATE;
    row.memory = trace::PHYSICAL;
    row.api = writer_->definitions().String("cuMemCreate");
    rows->push_back(row);
    row.kind = trace::MAP;
    row.memory = trace::VIRTUAL;
    row.address = at;
    row.api = writer_->definitions().String("cuMemMap");
    rows->push_back(row);
    ranges.mapped[at] = {to, last_handle_};
    at = to;
  }
  return absl::OkStatus();
}

absl::Status SnapshotEvents::SpendDefinitions() {
  const uint64_t bytes = writer_->definitions().bytes();
  if (!memory_->Spend(bytes - spent_for_definitions_)) return memory_->TooMuch();
  spent_for_definitions_ = bytes;
  return writer_->FlushDefinitions();
}

void SnapshotEvents::AddUnmappings(const EventRow& like, std::vector<EventRow>* rows) {
  DeviceRanges& ranges = ranges_[static_cast<size_t>(like.device)];
  const uint64_t end = like.address + like.size;
  for (auto part = ranges.mapped.lower_bound(like.address); part != ranges.mapped.end() && part->first < end;
       part = ranges.mapped.erase(part)) {
    EventRow row = like;
    row.layer = trace::DRIVER;
    row.kind = trace::UNMAP;
    row.memory = trace::VIRTUAL;
    row.address = part->first;
    row.size = part->second.first - part->first;
    row.api = writer_->definitions().String("cuMemUnmap");
    rows->push_back(row);
    row.kind = trace::PHYSICAL_RELEASE;
    row.memory = trace::PHYSICAL;
    row.address = row.size = row.stack = 0;
    row.handle = part->second.second;
    row.api = writer_->definitions().String("cuMemRelease");
    rows->push_back(row);
  }
}

absl::Status SnapshotEvents::AddBeginning(const SnapshotPast& past, int device, uint64_t time_ns,
                                          SnapshotBeginning* to) {
  EventRow row;
  row.time_ns = time_ns;
  row.device = device;
  row.thread = static_cast<uint32_t>(device) + 1;
  row.kind = trace::ADDRESS_RESERVE;
  row.layer = trace::DRIVER;
  row.memory = trace::VIRTUAL;
  row.api = writer_->definitions().String("cuMemAddressReserve");
  for (const auto& [from, end] : ranges_[static_cast<size_t>(device)].reserved) {
    row.address = from;
    row.size = end - from;
    to->torch_segments.push_back(static_cast<uint32_t>(to->rows.size()));
    to->rows.push_back(row);
  }
  for (const auto& [from, end] : past.mapped()) {
    row.address = from;
    row.size = end - from;
    GPUMEM_RETURN_IF_ERROR(AddMappings(row, &to->rows));
  }
  row.kind = trace::ALLOC;
  row.layer = trace::RUNTIME;
  row.memory = trace::DEVICE;
  row.handle = 0;
  row.api = writer_->definitions().String("cudaMalloc");
  for (const auto& [address, segment] : past.segments()) {
    row.address = address;
    row.size = segment.size;
    row.stream = segment.stream;
    row.stack = stacks_->Stack(segment.frames);
    GPUMEM_RETURN_IF_ERROR(SpendDefinitions());
    to->torch_segments.push_back(static_cast<uint32_t>(to->rows.size()));
    to->rows.push_back(row);
  }
  row.layer = trace::TORCH;
  for (const auto& [address, block] : past.blocks()) {
    row.kind = trace::ALLOC;
    row.duration_ns = 0;
    row.address = address;
    row.size = block.size;
    row.requested_size = block.requested;
    row.stream = block.stream;
    row.handle = block.pool;
    row.stack = stacks_->Stack(block.frames);
    row.api =
        writer_->definitions().String(row.stack == 0 && snapshot_.has_traces ? kAllocatedBeforeHistory : kTorchMalloc);
    GPUMEM_RETURN_IF_ERROR(SpendDefinitions());
    to->rows.push_back(row);
    if (!block.is_pending) continue;
    row.kind = trace::FREE;  // before, and is not over
    row.duration_ns = kTorchFreedLater;
    to->rows.push_back(row);
  }
  return absl::OkStatus();
}

// The text that the program set for what follows, or the graph that the compiler runs.
absl::Status SnapshotEvents::WriteTag(PickleValue dict, const EventRow& row) {
  const auto text_of = [&](const std::optional<PickleValue>& key) {
    const PickleValue* const value = tree_.Find(dict, key);
    return value == nullptr ? absl::string_view() : tree_.Text(*value);
  };
  std::string text(text_of(metadata_));
  const absl::string_view compiled = text_of(compiled_);
  if (text.empty() && !compiled.empty() && compiled != "N/A") text = absl::StrCat("compiled ", compiled);
  const uint32_t id = writer_->definitions().String(text);
  uint32_t& now = tags_[static_cast<size_t>(row.device)];
  if (id == now) return absl::OkStatus();
  now = id;
  EventRow mark;
  mark.kind = trace::TAG;
  mark.time_ns = row.time_ns;
  mark.thread = row.thread;
  mark.text = id;
  return writer_->Add(mark);
}

absl::Status SnapshotEvents::WriteAll(const std::vector<EventRow>& rows) {
  for (const EventRow& row : rows) GPUMEM_RETURN_IF_ERROR(writer_->Add(row));
  return absl::OkStatus();
}

absl::Status SnapshotEvents::WriteFree(const SnapshotPast& past, size_t i, EventRow row) {
  if (!past.is_free(i) && !past.is_late_completion(i)) return absl::OkStatus();
  row.layer = trace::TORCH;
  row.kind = past.is_free(i) ? trace::FREE : kTorchFreeCompleted;
  row.requested_size = row.size;
  row.size = past.size(i);
  row.handle = past.pool(i);
  row.duration_ns = past.is_freed_later(i) ? kTorchFreedLater : 0;
  row.api = writer_->definitions().String(kTorchFree);
  return writer_->Add(row);
}

absl::Status SnapshotEvents::WriteOutOfMemory(const SnapshotEntry& entry, EventRow row) {
  row.kind = trace::ALLOC_FAILED;
  row.layer = trace::TORCH;
  row.address = 0;
  row.result = kOutOfMemory;
  row.api = writer_->definitions().String(kTorchMalloc);
  GPUMEM_RETURN_IF_ERROR(writer_->Add(row));
  EventRow free;
  free.kind = trace::OOM_DEVICE;
  free.time_ns = row.time_ns;
  free.device = row.device;
  free.thread = row.thread;
  free.size = entry.address;
  return writer_->Add(free);
}

absl::Status SnapshotEvents::WriteSegment(const SnapshotEntry& entry, EventRow row) {
  std::vector<EventRow> rows;
  if (entry.action == SnapshotAction::kSegmentMap) {
    GPUMEM_RETURN_IF_ERROR(AddMappings(row, &rows));
    return WriteAll(rows);
  }
  if (entry.action == SnapshotAction::kSegmentUnmap) {
    AddUnmappings(row, &rows);
    return WriteAll(rows);
  }
  const bool allocates = entry.action == SnapshotAction::kSegmentAlloc;
  row.layer = trace::RUNTIME;
  row.kind = allocates ? trace::ALLOC : trace::FREE;
  row.api = writer_->definitions().String(allocates ? "cudaMalloc" : "cudaFree");
  return writer_->Add(row);
}

absl::Status SnapshotEvents::Write(const SnapshotPast& past, int device, size_t i, uint64_t time_ns) {
  const SnapshotEntry& entry = snapshot_.traces[static_cast<size_t>(device)][i];
  if (entry.action == SnapshotAction::kOther) return absl::OkStatus();
  EventRow row = RowOf(entry, device, time_ns);
  GPUMEM_RETURN_IF_ERROR(SpendDefinitions());
  const PickleValue dict = dicts_[static_cast<size_t>(device)][i];
  GPUMEM_RETURN_IF_ERROR(WriteTag(dict, row));
  switch (entry.action) {
    case SnapshotAction::kAlloc:
      row.kind = trace::ALLOC;
      row.layer = trace::TORCH;
      row.requested_size = entry.size;
      row.size = past.size(i);
      row.handle = past.pool(i);
      row.api = writer_->definitions().String(kTorchMalloc);
      return writer_->Add(row);
    case SnapshotAction::kFreeRequested:
    case SnapshotAction::kFreeCompleted:
      return WriteFree(past, i, row);
    case SnapshotAction::kSegmentAlloc:
    case SnapshotAction::kSegmentFree:
    case SnapshotAction::kSegmentMap:
    case SnapshotAction::kSegmentUnmap:
      return WriteSegment(entry, row);
    case SnapshotAction::kOom:
      return WriteOutOfMemory(entry, row);
    case SnapshotAction::kSnapshot:
      return WriteSnapshotMark(time_ns);
    case SnapshotAction::kAnnotate:
      row.kind = trace::TENSOR;
      row.text = writer_->definitions().String(tree_.Text(dict, "user_metadata"));
      return row.text == 0 ? absl::OkStatus() : writer_->Add(row);
    case SnapshotAction::kOther:
      break;
  }
  return absl::OkStatus();
}

absl::Status SnapshotEvents::WriteSnapshotMark(uint64_t time_ns) {
  EventRow mark;
  mark.kind = trace::MARK;
  mark.time_ns = time_ns;
  mark.handle = format::kMarkSnapshot;
  mark.text = writer_->definitions().String("snapshot");
  return writer_->Add(mark);
}

}  // namespace gpumem

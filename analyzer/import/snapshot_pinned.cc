// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/snapshot_pinned.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "trace/write/definition_builder.h"

namespace gpumem {
namespace {

constexpr uint64_t kPinnedBlockBytes = 96;  // of one in the tree, its slack included
constexpr absl::string_view kPinnedAllocate = "CachingHostAllocator::allocate";
constexpr absl::string_view kPinnedFree = "CachingHostAllocator::free";
// Shown in place of a line.
constexpr absl::string_view kPinnedCache = "free in PyTorch's cache of pinned memory";

}  // namespace

SnapshotPinned::SnapshotPinned(const TorchSnapshot& snapshot, ImportMemory* memory) : snapshot_(snapshot) {
  for (const SnapshotSegment& segment : snapshot.host_segments) {
    const bool has_block = !segment.blocks.empty();
    const bool is_cached = has_block && segment.blocks[0].state == SnapshotBlock::State::kInactive;
    live_[segment.address] = {segment.size, is_cached, false, has_block ? segment.blocks[0].frames : segment.frames};
  }
  for (const auto& [address, block] : live_) {
    at_end_ += block.size;
    cached_at_end_ += block.is_cached ? block.size : 0;
  }
  size_t spent_for = 0;
  for (size_t i = snapshot.host_trace.size(); i-- > 0;) {
    TakePinnedBack(snapshot.host_trace[i], i);
    if (live_.size() <= spent_for) continue;
    if (!memory->Spend((live_.size() - spent_for) * kPinnedBlockBytes)) break;
    spent_for = live_.size();
  }
}

void SnapshotPinned::Deny(size_t i, absl::string_view what) {
  ++denials_;  // backwards, so the first one is the last
  first_denial_ = absl::StrCat("entry ", i, ", 0x", absl::Hex(snapshot_.host_trace[i].address), ": ", what);
}

void SnapshotPinned::TakePinnedBack(const SnapshotEntry& entry, size_t i) {
  const auto block = live_.find(entry.address);
  const bool is_there = block != live_.end();
  switch (entry.action) {
    case SnapshotAction::kSegmentFree:
      if (is_there) Deny(i, "was let go, and is pinned without having been pinned anew");
      live_[entry.address] = {entry.size, true, false, {}};
      return;
    case SnapshotAction::kSegmentAlloc:
      if (!is_there) return Deny(i, "was pinned, is not there at the end, and nothing let it go");
      live_.erase(block);
      return;
    case SnapshotAction::kFreeRequested:
    case SnapshotAction::kFreeCompleted:
      if (!is_there) Deny(i, "was freed, is not there at the end, and nothing let it go");
      if (is_there && !block->second.is_cached) return;
      live_[entry.address] = {entry.size, false, false, {}};
      return;
    case SnapshotAction::kAlloc:
      if (!is_there) return Deny(i, "was allocated, is not there at the end, and nothing let it go");
      block->second.is_cached = true;
      block->second.frames = {};
      return;
    default:
      return;
  }
}

EventRow SnapshotPinned::HostRow(trace::EventKind kind, uint64_t address, uint64_t size, uint64_t time_ns) const {
  EventRow row;
  row.kind = kind;
  row.layer = trace::RUNTIME;
  row.memory = trace::HOST_PINNED;
  row.device = -1;
  row.thread = static_cast<uint32_t>(snapshot_.traces.size()) + 1;
  row.time_ns = time_ns;
  row.address = address;
  row.size = size;
  return row;
}

EventRow SnapshotPinned::PinnedRow(uint64_t address, const PinnedBlock& block, uint64_t time_ns, StackImporter* stacks,
                                   DefinitionBuilder* definitions) const {
  EventRow row = HostRow(trace::ALLOC, address, block.size, time_ns);
  row.stack = block.is_cached ? 0 : stacks->Stack(block.frames);
  row.api = definitions->String(block.is_cached ? kPinnedCache : kPinnedAllocate);
  return row;
}

void SnapshotPinned::AddBeginning(uint64_t time_ns, StackImporter* stacks, DefinitionBuilder* definitions,
                                  std::vector<EventRow>* rows) const {
  for (const auto& [address, block] : live_) {
    rows->push_back(PinnedRow(address, block, time_ns, stacks, definitions));
    if (rows->back().stack == 0 && !block.is_cached && !snapshot_.host_trace.empty())
      rows->back().api = definitions->String(kAllocatedBeforeHistory);
  }
}

absl::Status SnapshotPinned::WriteFreed(uint64_t address, uint64_t size, uint64_t time_ns, TraceWriter* writer) {
  EventRow row = HostRow(trace::FREE, address, size, time_ns);
  row.api = writer->definitions().String(kPinnedFree);
  return writer->Add(row);
}

absl::Status SnapshotPinned::Write(size_t i, uint64_t time_ns, StackImporter* stacks, TraceWriter* writer) {
  const std::vector<SnapshotEntry>& trace = snapshot_.host_trace;
  const SnapshotEntry& entry = trace[i];
  const auto known = live_.find(entry.address);
  const bool is_there = known != live_.end();
  // The next entry is on the same memory: both happened in one call.
  const bool goes_on = i + 1 < trace.size() && trace[i + 1].address == entry.address;
  PinnedBlock block{entry.size, false, false, entry.frames};
  switch (entry.action) {
    case SnapshotAction::kSegmentAlloc:
      block.is_new = goes_on && trace[i + 1].action == SnapshotAction::kAlloc;
      if (block.is_new) block.frames = trace[i + 1].frames;
      break;
    case SnapshotAction::kAlloc:
      if (is_there && std::exchange(known->second.is_new, false)) return absl::OkStatus();
      break;
    case SnapshotAction::kFreeCompleted:
      if (!is_there || known->second.is_cached) return absl::OkStatus();
      if (goes_on && trace[i + 1].action == SnapshotAction::kSegmentFree) return absl::OkStatus();
      block.is_cached = true;
      block.size = known->second.size;
      break;
    case SnapshotAction::kSegmentFree:
      if (!is_there) return absl::OkStatus();
      GPUMEM_RETURN_IF_ERROR(WriteFreed(entry.address, known->second.size, time_ns, writer));
      live_.erase(known);
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
  if (is_there) GPUMEM_RETURN_IF_ERROR(WriteFreed(entry.address, known->second.size, time_ns, writer));
  live_[entry.address] = block;
  return writer->Add(PinnedRow(entry.address, block, time_ns, stacks, &writer->definitions()));
}

std::vector<std::string> SnapshotPinned::Notes() const {
  std::vector<std::string> notes;
  if (snapshot_.host_segments.empty() && snapshot_.host_trace.empty()) return notes;
  std::string note = absl::StrCat("Pinned host memory is what PyTorch's allocator had pinned: ", FormatBytes(at_end_),
                                  " at the end, of which ", FormatBytes(cached_at_end_), " were free in its cache.");
  uint64_t began = 0;
  for (const auto& [address, block] : live_) began += block.size;
  if (!snapshot_.host_trace.empty() && began != 0)
    absl::StrAppend(&note, " The history of pinned memory begins with ", FormatBytes(began), ".");
  // PyTorch hands it out in pieces, and the snapshot has no entry for the rest.
  if (absl::StrContains(snapshot_.conf, "pinned_reserve_segment_size_mb"))
    absl::StrAppend(&note, " What no tensor ever had of pinned_reserve_segment_size_mb is in no number.");
  notes.push_back(std::move(note));
  if (denials_ != 0) {
    notes.push_back(absl::StrCat(FormatCountOf(denials_, "entry", "entries"), " on pinned host memory ",
                                 denials_ == 1 ? "contradicts" : "contradict",
                                 " what was pinned at the end, so what was pinned before the history is uncertain. "
                                 "First: ",
                                 first_denial_, "."));
  }
  return notes;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/snapshot_again.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "import/byte_source.h"
#include "import/pickle_reader.h"
#include "import/pickle_tree.h"
#include "import/pickle_writer.h"
#include "import/snapshot_rest.h"
#include "trace/import_info.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

// Lists of frames, each written once.
class SnapshotFrames {
 public:
  SnapshotFrames(const StackTable& stacks, PickleWriter* pickle) : stacks_(stacks), pickle_(pickle) {}

  void Write(uint64_t stack_id) {
    const auto [it, is_new] = lists_.try_emplace(stack_id);
    if (!is_new) return pickle_->Recall(it->second);
    pickle_->BeginList();
    for (const uint32_t id : stacks_.Frames(stack_id)) {
      pickle_->Item();
      WriteFrame(id);
    }
    pickle_->EndList();
    it->second = pickle_->Remember();
  }

 private:
  void WriteFrame(uint32_t id) {
    if (const auto known = frames_.find(id); known != frames_.end()) return pickle_->Recall(known->second);
    std::string file, name;
    uint64_t line = 0;
    const FrameInfo* const frame = stacks_.frame(id);
    const PythonCodeInfo* const code = frame == nullptr ? nullptr : stacks_.python_code(frame->python_code);
    if (code != nullptr) {
      file = code->filename, name = code->name, line = code->first_line;
    } else if (const ModuleSymbols* symbols = frame == nullptr ? nullptr : stacks_.symbols(frame->module)) {
      const std::vector<NativeFunction> functions = symbols->At(frame->pc);
      if (!functions.empty()) file = functions[0].file, name = functions[0].function, line = functions[0].line;
    }
    pickle_->BeginDict();
    pickle_->Field("filename", file.empty() ? "??" : file);
    pickle_->Field("line", line);
    pickle_->Field("name", name);
    pickle_->EndDict();
    frames_[id] = pickle_->Remember();
  }

  const StackTable& stacks_;
  PickleWriter* pickle_;
  absl::flat_hash_map<uint64_t, uint32_t> lists_;
  absl::flat_hash_map<uint32_t, uint32_t> frames_;
};

// What DictRest wrote, in the order of its indices.
class RestOfDicts {
 public:
  RestOfDicts(const PickleTree& tree, PickleValue rest, absl::Span<const absl::string_view> known, PickleWriter* pickle,
              PickledTree* values)
      : tree_(tree),
        known_(known),
        pickle_(pickle),
        values_(values),
        changes_(List(rest, "changes")),
        patches_(List(rest, "patches")),
        whole_(List(rest, "whole")) {}

  bool IsWhole(uint64_t index) const { return !whole_.empty() && IndexOf(whole_[0]) == index; }
  // False: the value at this index is not kept whole.
  bool WriteWhole(uint64_t index) {
    if (!IsWhole(index)) return false;
    values_->Write(Part(whole_[0], 1));
    whole_.remove_prefix(1);
    return true;
  }

  void Write(uint64_t index, absl::FunctionRef<void(size_t key)> write_known) {
    for (; !changes_.empty() && IndexOf(changes_[0]) <= index; changes_.remove_prefix(1)) {
      missing_ = static_cast<uint64_t>(tree_.Int(Part(changes_[0], 1)).value_or(0));
      others_ = Part(changes_[0], 2);
    }
    PickleValue patch;
    if (!patches_.empty() && IndexOf(patches_[0]) == index) {
      patch = Part(patches_[0], 1);
      patches_.remove_prefix(1);
    }
    pickle_->BeginDict();
    for (size_t key = 0; key < known_.size(); ++key) {
      if ((missing_ >> key & 1) != 0) continue;
      pickle_->Text(known_[key]);
      const PickleValue* const own = tree_.Find(patch, known_[key]);
      own == nullptr ? write_known(key) : values_->Write(*own);
    }
    for (size_t i = 0; i < tree_.Keys(others_).size(); ++i) {
      values_->Write(tree_.Keys(others_)[i]);
      values_->Write(tree_.Values(others_)[i]);
    }
    pickle_->EndDict();
  }

 private:
  absl::Span<const PickleValue> List(PickleValue rest, absl::string_view name) const {
    const PickleValue* const list = tree_.Find(rest, name);
    return list == nullptr ? absl::Span<const PickleValue>() : tree_.Items(*list);
  }
  PickleValue Part(PickleValue entry, size_t i) const {
    const absl::Span<const PickleValue> parts = tree_.Items(entry);
    return i < parts.size() ? parts[i] : PickleValue();
  }
  uint64_t IndexOf(PickleValue entry) const {
    return static_cast<uint64_t>(tree_.Int(Part(entry, 0)).value_or(INT64_MAX));
  }

  const PickleTree& tree_;
  absl::Span<const absl::string_view> known_;
  PickleWriter* pickle_;
  PickledTree* values_;
  absl::Span<const PickleValue> changes_, patches_, whole_;
  uint64_t missing_ = 0;
  PickleValue others_;
};

class SnapshotAgain {
 public:
  SnapshotAgain(const PickleTree& rest, const trace::AllocatorState& state, LoadedTrace* loaded, const TextSink& sink,
                const std::function<bool()>& more)
      : rest_(rest),
        state_(state),
        path_(loaded->analysis.path),
        out_(sink),
        more_(more),
        pickle_(out_.text()),
        values_(&rest, &pickle_, [this] { return out_.MaybeFlush(), true; }),
        frames_(loaded->stacks, &pickle_) {}

  absl::StatusOr<ExportResult> Write();

 private:
  PickleValue Rest(absl::string_view name) const {
    const PickleValue* const found = rest_.Find(rest_.root(), name);
    return found == nullptr ? PickleValue() : *found;
  }
  absl::Status WriteTraces();
  absl::Status WriteEntries(int device, PickleValue rest);
  void WriteEntry(const EventRow& row, absl::string_view action, uint64_t index, RestOfDicts* rest);
  // The time of a completion, as "delays" has it.
  uint64_t CompletedUs(const EventRow& row, uint64_t index);
  void WriteSegments();
  void WriteSegment(int segment, uint64_t address, int first_block);
  uint64_t WriteBlock(int block, uint64_t address);

  const PickleTree& rest_;
  const trace::AllocatorState& state_;
  std::string path_;
  ChunkedText out_;
  const std::function<bool()>& more_;
  PickleWriter pickle_;
  PickledTree values_;
  SnapshotFrames frames_;
  absl::Span<const PickleValue> delays_;  // of the device at hand
  uint64_t delayed_ = 0;                  // the index before them
  std::optional<RestOfDicts> of_segments_, of_blocks_;
  ExportResult result_;
};

void SnapshotAgain::WriteEntry(const EventRow& row, absl::string_view action, uint64_t index, RestOfDicts* rest) {
  pickle_.Item();
  // In the order of kEntryKeys.
  rest->Write(index, [&](size_t key) {
    switch (key) {
      case 0:
        return pickle_.Text(action);
      case 1:
        return pickle_.Number(row.address);
      case 2:
        return pickle_.Number(row.requested_size);
      case 3:
        return pickle_.Signed(static_cast<int64_t>(row.stream));
      case 4:
        return pickle_.Number(row.time_ns / 1000);
      default:
        return frames_.Write(row.stack);
    }
  });
  ++result_.written_events;
  out_.MaybeFlush();
}

uint64_t SnapshotAgain::CompletedUs(const EventRow& row, uint64_t index) {
  const uint64_t us = row.time_ns / 1000;
  if (delays_.size() < 2) return us;
  const uint64_t next = delayed_ + static_cast<uint64_t>(rest_.Int(delays_[0]).value_or(0));
  if (next != index) return us;
  const int64_t delay = rest_.Int(delays_[1]).value_or(0);
  delays_.remove_prefix(2);
  delayed_ = next;
  return us + static_cast<uint64_t>(delay);
}

absl::Status SnapshotAgain::WriteEntries(int device, PickleValue dict) {
  absl::StatusOr<TraceReader> reader = TraceReader::Open(path_);
  if (!reader.ok()) return AsReadError(reader.status());
  RestOfDicts rest(rest_, dict, kEntryKeys, &pickle_, &values_);
  absl::Span<const PickleValue> open;
  if (const PickleValue* const list = rest_.Find(dict, "open")) open = rest_.Items(*list);
  const PickleValue* const delays = rest_.Find(dict, "delays");
  delays_ = delays == nullptr ? absl::Span<const PickleValue>() : rest_.Items(*delays);
  delayed_ = 0;
  uint64_t index = 0;
  const auto write_whole = [&] {
    for (; rest.IsWhole(index); ++index, ++result_.written_events) {
      pickle_.Item();
      rest.WriteWhole(index);
    }
  };
  pickle_.BeginList();
  for (ItemType item = reader->Next(); item != ItemType::kEndOfStream && item != ItemType::kEnd;
       item = reader->Next()) {
    if (item != ItemType::kEvents) continue;
    const EventBatch& batch = reader->batch();
    for (size_t i = 0; i < batch.count(); ++i) {
      const uint32_t kind = batch.kind(i);
      const bool is_late = kind == kTorchFreeCompleted;
      if (batch.device(i) != device || batch.layer(i) != trace::TORCH ||
          (kind != trace::ALLOC && kind != trace::FREE && !is_late))
        continue;
      if (!more_()) {
        result_.was_cut = true;
        pickle_.EndList();
        return absl::OkStatus();
      }
      const EventRow row = batch.Row(i);
      write_whole();
      const bool frees = kind == trace::FREE;
      WriteEntry(row, kind == trace::ALLOC ? "alloc" : frees ? "free_requested" : "free_completed", index++, &rest);
      if (!frees) continue;
      if (!open.empty() && rest_.Int(open[0]) == static_cast<int64_t>(index - 1)) {
        open.remove_prefix(1);
      } else {
        EventRow completed = row;
        completed.time_ns = CompletedUs(row, index) * 1000;
        WriteEntry(completed, "free_completed", index++, &rest);
      }
    }
  }
  write_whole();
  pickle_.EndList();
  return reader->damage().empty() ? absl::OkStatus() : absl::DataLossError(reader->damage());
}

absl::Status SnapshotAgain::WriteTraces() {
  pickle_.BeginList();
  int device = 0;
  for (const PickleValue trace : rest_.Items(Rest("traces"))) {
    pickle_.Item();
    GPUMEM_RETURN_IF_ERROR(WriteEntries(device++, trace));
  }
  pickle_.EndList();
  return absl::OkStatus();
}

// The address behind it.
uint64_t SnapshotAgain::WriteBlock(int block, uint64_t address) {
  pickle_.Item();
  const auto index = static_cast<uint64_t>(block);
  const uint64_t next = address + state_.block_size(block);
  if (of_blocks_->WriteWhole(index)) return next;
  static constexpr const char* kStates[] = {"inactive", "active_allocated", "active_pending_free"};
  of_blocks_->Write(index, [&](size_t key) {
    switch (key) {
      case 0:
        return pickle_.Number(address);
      case 1:
        return pickle_.Number(state_.block_size(block));
      case 2:
        return pickle_.Number(state_.block_requested(block));
      case 3:
        return pickle_.Text(kStates[std::clamp<int>(state_.block_state(block), 0, 2)]);
      default:
        return frames_.Write(state_.block_stack(block));
    }
  });
  out_.MaybeFlush();
  return next;
}

void SnapshotAgain::WriteSegment(int segment, uint64_t address, int first_block) {
  const auto end = first_block + static_cast<int>(state_.segment_blocks(segment));
  uint64_t allocated = 0, active = 0, requested = 0;
  for (int block = first_block; block < end; ++block) {
    if (state_.block_state(block) == trace::BLOCK_INACTIVE) continue;
    active += state_.block_size(block);
    requested += state_.block_requested(block);
    if (state_.block_state(block) == trace::BLOCK_ALLOCATED) allocated += state_.block_size(block);
  }
  const uint64_t numbers[] = {address, state_.segment_size(segment), allocated, active, requested};
  of_segments_->Write(static_cast<uint64_t>(segment), [&](size_t key) {
    switch (key) {
      case 0:
        return pickle_.Signed(state_.segment_device(segment));
      case 6:
        return pickle_.Signed(static_cast<int64_t>(state_.segment_stream(segment)));
      case 7:
        return pickle_.Text((state_.segment_flags(segment) & 1) != 0 ? "small" : "large");
      case 8:
        return pickle_.Pair(state_.segment_pool(segment) >> 32, state_.segment_pool(segment) & UINT32_MAX);
      case 9:
        return pickle_.Bool((state_.segment_flags(segment) & 2) != 0);
      case 10:
        return frames_.Write(state_.segment_stack(segment));
      case 11: {
        pickle_.BeginList();
        uint64_t at = address;
        for (int block = first_block; block < end; ++block) at = WriteBlock(block, at);
        return pickle_.EndList();
      }
      default:
        return pickle_.Number(numbers[key - 1]);
    }
  });
}

void SnapshotAgain::WriteSegments() {
  of_segments_.emplace(rest_, Rest("segments"), kSegmentKeys, &pickle_, &values_);
  of_blocks_.emplace(rest_, Rest("blocks"), kBlockKeys, &pickle_, &values_);
  pickle_.BeginList();
  uint64_t address = 0;
  int first_block = 0;
  for (int segment = 0; segment < state_.segment_size_size(); ++segment) {
    address += static_cast<uint64_t>(state_.segment_address_delta(segment));
    pickle_.Item();
    WriteSegment(segment, address, first_block);
    first_block += static_cast<int>(state_.segment_blocks(segment));
  }
  pickle_.EndList();
}

absl::StatusOr<ExportResult> SnapshotAgain::Write() {
  pickle_.Begin();
  const absl::Span<const PickleValue> keys = rest_.Items(Rest("keys"));
  if (keys.empty()) WriteSegments();  // as PyTorch 1.13 wrote it
  if (!keys.empty()) pickle_.BeginDict();
  const PickleValue top = Rest("top");
  for (const PickleValue name : keys) {
    const absl::string_view key = rest_.Text(name);
    values_.Write(name);
    if (key == "segments") {
      WriteSegments();
    } else if (key == "device_traces") {
      GPUMEM_RETURN_IF_ERROR(WriteTraces());
    } else if (const PickleValue* const value = rest_.Find(top, key)) {
      values_.Write(*value);
    } else {
      pickle_.None();
    }
  }
  if (!keys.empty()) pickle_.EndDict();
  pickle_.End();
  out_.Flush();
  return result_;
}

}  // namespace

absl::StatusOr<ExportResult> ExportSnapshotAgain(const trace::AllocatorState& state, LoadedTrace* loaded,
                                                 const TextSink& sink, const std::function<bool()>& more) {
  ByteSource source = ByteSource::Of(state.rest());
  GPUMEM_ASSIGN_OR_RETURN(const PickleTree rest, ReadPickle(&source, {}));
  return SnapshotAgain(rest, state, loaded, sink, more).Write();
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/torch_import.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/import.h"
#include "import/snapshot_events.h"
#include "import/snapshot_past.h"
#include "import/snapshot_pinned.h"
#include "import/snapshot_rest.h"
#include "import/torch_snapshot.h"
#include "trace/import_info.h"
#include "trace/write/definition_builder.h"

namespace gpumem {

uint64_t AnnotationRanges::next_ns() const {
  return static_cast<uint64_t>(std::clamp<int64_t>(annotations_[next_].time_us, 0, INT64_MAX / 1000)) * 1000;
}

absl::Status AnnotationRanges::Write(uint64_t begin_ns, TraceWriter* writer) {
  EventRow row;
  row.time_ns = last_ns_ = std::max({next_ns(), begin_ns, last_ns_});
  const SnapshotAnnotation& annotation = annotations_[next_++];
  const absl::string_view name = tree_.Text(annotation.name);
  row.device = -1;
  row.thread = static_cast<uint32_t>(annotation.device) + 1;
  row.text = writer->definitions().String(name);
  std::vector<uint64_t>& open = open_[{annotation.device, annotation.name.id()}];
  if (!annotation.is_start) {
    if (open.empty()) return absl::OkStatus();  // opened before the history begins
    row.kind = trace::RANGE_END;
    row.handle = open.back();
    open.pop_back();
    return writer->Add(row);
  }
  open.push_back(++opened_);
  row.kind = trace::RANGE_START;
  row.handle = opened_;
  absl::string_view number = name;
  uint64_t step = 0;
  if (absl::ConsumePrefix(&number, "ProfilerStep#") && absl::SimpleAtoi(number, &step)) {
    EventRow mark = row;
    mark.kind = trace::STEP;
    mark.handle = step + 1;  // PyTorch counts from 0
    mark.text = 0;
    GPUMEM_RETURN_IF_ERROR(writer->Add(mark));
  }
  return writer->Add(row);
}

namespace {

// What was there when the history began.
std::string NoteOnBeginning(const TorchSnapshot& snapshot, const std::vector<SnapshotPast>& pasts) {
  uint64_t blocks = 0, allocated = 0, segments = 0, reserved = 0;
  for (const SnapshotPast& past : pasts) {
    for (const auto& [address, block] : past.blocks()) {
      blocks += block.is_pending ? 0 : 1;
      allocated += block.is_pending ? 0 : block.size;
    }
    for (const auto& [address, segment] : past.segments()) reserved += segment.size;
    for (const auto& [from, to] : past.mapped()) reserved += to - from;
    segments += past.segments().size() + past.mapped().size();
  }
  const std::string held = absl::StrCat(FormatCountOf(blocks, "block", "blocks"), ", ", FormatBytes(allocated), ", in ",
                                        FormatCountOf(segments, "segment", "segments"), " of ", FormatBytes(reserved));
  if (snapshot.has_pinned_history_alone()) {
    return segments == 0 ? ""
                         : absl::StrCat(
                               "The history is of pinned host memory alone. Of GPUs the snapshot has its last "
                               "moment, ",
                               held, ", which is in no other number here.");
  }
  if (!snapshot.has_traces) {
    return absl::StrCat(
        "The snapshot has no history: it shows one moment, with ", held,
        ". For a history, call torch.cuda.memory._record_memory_history() before the program allocates.");
  }
  if (segments == 0) return "";
  return absl::StrCat("The history begins with ", held,
                      ", as follows from the segments at its end. What was freed before, and peaks from before, are in "
                      "no number. PyTorch keeps the last max_entries entries: older ones are gone.");
}

}  // namespace

std::vector<std::string> SnapshotNotes(const TorchSnapshot& snapshot, const std::vector<SnapshotPast>& pasts) {
  std::vector<std::string> notes;
  if (std::string note = NoteOnBeginning(snapshot, pasts); !note.empty()) notes.push_back(std::move(note));
  uint64_t contradictions = 0, odd_sizes = 0;
  std::string first;
  for (const SnapshotPast& past : pasts) {
    if (contradictions == 0) first = past.first_contradiction();
    contradictions += past.contradictions();
    odd_sizes += past.odd_sizes();
  }
  if (contradictions != 0) {
    notes.push_back(absl::StrCat(
        FormatCountOf(contradictions, "entry", "entries"), " of the history ",
        contradictions == 1 ? "contradicts" : "contradict",
        " the segments at its end, so the memory from before the history is uncertain. First: ", first, "."));
  }
  if (odd_sizes != 0) {
    notes.push_back(absl::StrCat(FormatCountOf(odd_sizes, "block has", "blocks have"),
                                 " another size than the allocator's rules give; the snapshot's is used. Sizes of "
                                 "blocks that were freed before its end may be off by up to 1 MiB each."));
  }
  if (snapshot.has_traces && !snapshot.has_times)
    notes.push_back("The snapshot has no times (PyTorch before 2.2): events keep their order, and times mean nothing.");
  if (!snapshot.has_stacks) {
    notes.push_back(
        "The snapshot has no stacks: record with torch.cuda.memory._record_memory_history(context=\"all\") to see who "
        "allocates.");
  }
  if (snapshot.unknown_actions != 0) {
    notes.push_back(absl::StrCat(FormatCountOf(snapshot.unknown_actions, "entry", "entries"),
                                 " of the history of a kind that this version does not know ",
                                 snapshot.unknown_actions == 1 ? "was" : "were", " left out."));
  }
  return notes;
}

trace::Header SnapshotHeader(const TorchSnapshot& snapshot, const std::string& path, uint64_t begin_ns,
                             const ImportResult& result) {
  trace::Header header = ImportHeader(path, result, "PyTorch");
  header.set_anchor_monotonic_ns(begin_ns);
  if (snapshot.has_times) header.set_anchor_realtime_ns(begin_ns);
  if (!snapshot.conf.empty()) (*header.mutable_environment())["PYTORCH_CUDA_ALLOC_CONF"] = ValidText(snapshot.conf);
  for (const auto& [setting, value] : snapshot.settings)
    header.mutable_settings()->insert({ValidText(setting), ValidText(value)});  // what says that it is an import stays
  return header;
}

namespace {

constexpr int64_t kMostMicroseconds = INT64_MAX / 1000;

class TorchImport {
 public:
  TorchImport(const PickleTree& tree, const TorchSnapshot& snapshot, ImportMemory* memory, TraceWriter::Sink sink)
      : tree_(tree), snapshot_(snapshot), memory_(memory), writer_(std::move(sink)) {}

  absl::StatusOr<ImportResult> Run(const std::string& path);

 private:
  // The next entry of a device, and its time made to rise.
  struct Cursor {
    size_t next = 0;
    uint64_t time_ns = 0;
  };

  void MakePasts();
  uint64_t BeginNs() const;
  absl::Status WriteBeginning();
  absl::Status WriteEvents();
  absl::Status WriteEntry(size_t cursor, uint64_t time_ns);
  void Advance(size_t cursor);
  // Of a device, or, after all devices, of pinned host memory.
  const std::vector<SnapshotEntry>& TraceOf(size_t cursor) const {
    return cursor < snapshot_.traces.size() ? snapshot_.traces[cursor] : snapshot_.host_trace;
  }

  const PickleTree& tree_;
  const TorchSnapshot& snapshot_;
  ImportMemory* memory_;
  TraceWriter writer_;
  std::vector<SnapshotPast> pasts_;  // by device
  std::vector<Cursor> cursors_;
  std::optional<SnapshotEvents> events_;
  std::optional<SnapshotPinned> pinned_;
  std::optional<StackImporter> stacks_;
  uint64_t begin_ns_ = 0, made_times_ = 0;
};

void TorchImport::MakePasts() {
  size_t devices = snapshot_.traces.size();
  for (const SnapshotSegment& segment : snapshot_.segments)
    devices = std::max(devices, static_cast<size_t>(segment.device) + 1);
  for (size_t device = 0; device < devices && !memory_->is_over(); ++device)
    pasts_.emplace_back(snapshot_, static_cast<int>(device), memory_);
  pinned_.emplace(snapshot_, memory_);
}

// Of the first event or annotation.
uint64_t TorchImport::BeginNs() const {
  int64_t first = INT64_MAX;
  for (size_t i = 0; i <= snapshot_.traces.size(); ++i) {
    const std::vector<SnapshotEntry>& trace = TraceOf(i);
    if (!trace.empty() && trace[0].time_us > 0) first = std::min(first, trace[0].time_us);
  }
  if (first == INT64_MAX) return kMadeTimeNs;
  return static_cast<uint64_t>(std::clamp<int64_t>(first, 1, kMostMicroseconds)) * 1000;
}

// Moves a cursor to the time of its next entry, which is never before the one before.
void TorchImport::Advance(size_t of) {
  Cursor& cursor = cursors_[of];
  const std::vector<SnapshotEntry>& trace = TraceOf(of);
  if (cursor.next == trace.size()) {
    cursor.time_ns = UINT64_MAX;
    return;
  }
  uint64_t time_ns = 0;
  if (snapshot_.has_times) {
    time_ns = SnapshotTimeNs(trace[cursor.next]);
  } else {
    time_ns = begin_ns_ + ++made_times_ * kMadeTimeNs;
  }
  cursor.time_ns = std::max({time_ns, cursor.time_ns, begin_ns_});
}

absl::Status TorchImport::WriteBeginning() {
  SnapshotBeginning beginning;
  for (size_t device = 0; device < pasts_.size() && !snapshot_.has_pinned_history_alone(); ++device) {
    GPUMEM_RETURN_IF_ERROR(events_->AddBeginning(pasts_[device], static_cast<int>(device), begin_ns_, &beginning));
  }
  pinned_->AddBeginning(begin_ns_, &*stacks_, &writer_.definitions(), &beginning.rows);
  return writer_.AddLiveSnapshot(beginning.rows, beginning.torch_segments);
}

absl::Status TorchImport::WriteEntry(size_t cursor, uint64_t time_ns) {
  const size_t i = cursors_[cursor].next;
  if (cursor == snapshot_.traces.size()) return pinned_->Write(i, time_ns, &*stacks_, &writer_);
  return events_->Write(pasts_[cursor], static_cast<int>(cursor), i, time_ns);
}

// Devices' lists, that of pinned host memory and the annotations, merged by time.
absl::Status TorchImport::WriteEvents() {
  cursors_.resize(snapshot_.traces.size() + 1);
  for (size_t cursor = 0; cursor < cursors_.size(); ++cursor) Advance(cursor);
  AnnotationRanges ranges(tree_, snapshot_.annotations);
  for (;;) {
    const auto first = std::min_element(cursors_.begin(), cursors_.end(),
                                        [](const Cursor& a, const Cursor& b) { return a.time_ns < b.time_ns; });
    const uint64_t next_ns = first->time_ns;
    while (ranges.has_next() && (ranges.next_ns() <= next_ns || next_ns == UINT64_MAX))
      GPUMEM_RETURN_IF_ERROR(ranges.Write(begin_ns_, &writer_));
    if (next_ns == UINT64_MAX) return absl::OkStatus();
    const auto cursor = static_cast<size_t>(first - cursors_.begin());
    GPUMEM_RETURN_IF_ERROR(WriteEntry(cursor, next_ns));
    ++first->next;
    Advance(cursor);
  }
}

absl::StatusOr<ImportResult> TorchImport::Run(const std::string& path) {
  MakePasts();
  if (memory_->is_over()) return memory_->TooMuch();
  begin_ns_ = BeginNs();
  ImportResult result;
  result.format = "PyTorch snapshot";
  result.notes = SnapshotNotes(snapshot_, pasts_);
  for (std::string& note : pinned_->Notes()) result.notes.push_back(std::move(note));
  const bool began_with_any =
      pinned_->had_any() || std::any_of(pasts_.begin(), pasts_.end(), [](const SnapshotPast& past) {
        return !past.segments().empty() || !past.mapped().empty();
      });
  const bool is_moment = snapshot_.entries == 0 && snapshot_.host_trace.empty();
  result.covers = is_moment ? (began_with_any ? "moment" : "nothing") : began_with_any ? "window" : "run";
  result.has_times = is_moment || snapshot_.has_times;
  result.has_stacks = snapshot_.has_stacks;
  result.has_failures = !is_moment;
  if (!snapshot_.has_pinned_history_alone()) {
    result.devices = static_cast<uint32_t>(
        std::count_if(pasts_.begin(), pasts_.end(), [](const SnapshotPast& past) { return past.has_memory(); }));
  }
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(SnapshotHeader(snapshot_, path, begin_ns_, result)));
  stacks_.emplace(&tree_, &writer_.definitions());
  events_.emplace(tree_, snapshot_, pasts_, &*stacks_, memory_, &writer_);
  GPUMEM_RETURN_IF_ERROR(WriteBeginning());
  GPUMEM_RETURN_IF_ERROR(AddSnapshotState(tree_, snapshot_, pasts_, begin_ns_, &*stacks_, memory_, &writer_));
  GPUMEM_RETURN_IF_ERROR(WriteEvents());
  // A state without a history is a history of one moment.
  if (is_moment) GPUMEM_RETURN_IF_ERROR(events_->WriteSnapshotMark(begin_ns_));
  GPUMEM_RETURN_IF_ERROR(writer_.End());
  result.events = writer_.events();
  return result;
}

}  // namespace

absl::StatusOr<ImportResult> ImportTorchSnapshot(const PickleTree& tree, uint64_t file_bytes, const std::string& path,
                                                 ImportMemory* memory, TraceWriter::Sink sink) {
  GPUMEM_ASSIGN_OR_RETURN(const TorchSnapshot snapshot, ReadTorchSnapshot(tree, file_bytes, memory));
  return TorchImport(tree, snapshot, memory, std::move(sink)).Run(path);
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/torch_import.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "import/annotation_ranges.h"
#include "import/snapshot_events.h"
#include "import/snapshot_notes.h"
#include "import/snapshot_past.h"
#include "import/stack_importer.h"
#include "import/torch_snapshot.h"

namespace gpumem {
namespace {

constexpr int64_t kMostMicroseconds = INT64_MAX / 1000;
constexpr uint64_t kWithoutTimes = 1000;  // ns between events whose times are not known

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
  void Advance(size_t device);

  const PickleTree& tree_;
  const TorchSnapshot& snapshot_;
  ImportMemory* memory_;
  TraceWriter writer_;
  std::vector<SnapshotPast> pasts_;  // by device
  std::vector<Cursor> cursors_;
  std::optional<SnapshotEvents> events_;
  uint64_t begin_ns_ = 0, made_times_ = 0;
};

void TorchImport::MakePasts() {
  size_t devices = snapshot_.traces.size();
  for (const SnapshotSegment& segment : snapshot_.segments)
    devices = std::max(devices, static_cast<size_t>(segment.device) + 1);
  for (size_t device = 0; device < devices && !memory_->is_over(); ++device)
    pasts_.emplace_back(snapshot_, static_cast<int>(device), memory_);
}

// Of the first event or annotation.
uint64_t TorchImport::BeginNs() const {
  int64_t first = INT64_MAX;
  for (const auto& trace : snapshot_.traces) {
    if (!trace.empty() && trace[0].time_us > 0) first = std::min(first, trace[0].time_us);
  }
  if (first == INT64_MAX) return kWithoutTimes;
  return static_cast<uint64_t>(std::clamp<int64_t>(first, 1, kMostMicroseconds)) * 1000;
}

// Moves a device's cursor to the time of its next entry, which is never before the one before.
void TorchImport::Advance(size_t device) {
  Cursor& cursor = cursors_[device];
  const std::vector<SnapshotEntry>& trace = snapshot_.traces[device];
  if (cursor.next == trace.size()) {
    cursor.time_ns = UINT64_MAX;
    return;
  }
  uint64_t time_ns = 0;
  if (snapshot_.has_times) {
    time_ns = static_cast<uint64_t>(std::clamp<int64_t>(trace[cursor.next].time_us, 0, kMostMicroseconds)) * 1000;
  } else {
    time_ns = begin_ns_ + ++made_times_ * kWithoutTimes;
  }
  cursor.time_ns = std::max({time_ns, cursor.time_ns, begin_ns_});
}

absl::Status TorchImport::WriteBeginning() {
  SnapshotBeginning beginning;
  for (size_t device = 0; device < pasts_.size(); ++device) {
    GPUMEM_RETURN_IF_ERROR(events_->AddBeginning(pasts_[device], static_cast<int>(device), begin_ns_, &beginning));
  }
  return writer_.AddLiveSnapshot(beginning.rows, beginning.torch_segments);
}

// Devices' lists and the annotations, merged by time.
absl::Status TorchImport::WriteEvents() {
  cursors_.resize(snapshot_.traces.size());
  for (size_t device = 0; device < cursors_.size(); ++device) Advance(device);
  AnnotationRanges ranges(tree_, snapshot_.annotations);
  for (;;) {
    const auto first = std::min_element(cursors_.begin(), cursors_.end(),
                                        [](const Cursor& a, const Cursor& b) { return a.time_ns < b.time_ns; });
    const uint64_t next_ns = first == cursors_.end() ? UINT64_MAX : first->time_ns;
    while (ranges.has_next() && (ranges.next_ns() <= next_ns || next_ns == UINT64_MAX))
      GPUMEM_RETURN_IF_ERROR(ranges.Write(begin_ns_, &writer_));
    if (next_ns == UINT64_MAX) return absl::OkStatus();
    const auto device = static_cast<size_t>(first - cursors_.begin());
    GPUMEM_RETURN_IF_ERROR(events_->Write(pasts_[device], static_cast<int>(device), first->next, next_ns));
    ++first->next;
    Advance(device);
  }
}

absl::StatusOr<ImportResult> TorchImport::Run(const std::string& path) {
  MakePasts();
  if (memory_->is_over()) return memory_->TooMuch();
  begin_ns_ = BeginNs();
  ImportResult result;
  result.format = "PyTorch snapshot";
  result.notes = SnapshotNotes(snapshot_, pasts_);
  result.devices = static_cast<uint32_t>(
      std::count_if(pasts_.begin(), pasts_.end(), [](const SnapshotPast& past) { return past.has_memory(); }));
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(SnapshotHeader(snapshot_, path, begin_ns_, result)));
  events_.emplace(tree_, snapshot_, pasts_, memory_, &writer_);
  GPUMEM_RETURN_IF_ERROR(WriteBeginning());
  GPUMEM_RETURN_IF_ERROR(WriteEvents());
  // A state without a history is a history of one moment.
  if (snapshot_.entries == 0) GPUMEM_RETURN_IF_ERROR(events_->WriteSnapshotMark(begin_ns_));
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

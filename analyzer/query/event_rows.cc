// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/event_rows.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/status_macros.h"
#include "ledger/attribution/label_replay.h"
#include "query/row_texts.h"
#include "query/schema.h"
#include "query/table_writer.h"
#include "replay/state/accounts.h"
#include "trace/mark_ranges.h"

namespace gpumem {
namespace {

constexpr uint64_t kRowsPerProgress = 1u << 18;

bool IsDeviceKnown(int device) { return device >= 0 && device < kMaxDevices; }

// Receives what the columns can say, then every event.
class EventRows final : public LifeReceiver, public LabelVisitor {
 public:
  EventRows(LoadedTrace* loaded, const LoadedLives::Progress& progress, Database* database)
      : loaded_(loaded), progress_(progress), database_(database) {}

  bool WantsLives() const override { return false; }
  void Lived(const Life&, const AttributedUse&) override {}
  void Begin(const LivesFacts& facts) override {
    facts_ = facts;
    texts_.emplace(loaded_, &facts_);
  }

  absl::Status Read();

  void BlockEnded(const TorchBlock&, const BlockLabel&, uint64_t, bool) override {}
  void CudaEnded(const CudaLife& cuda, uint64_t) override { freed_bytes_ = cuda.size; }
  void SegmentEnded(const CudaLife& cuda, uint64_t) override { freed_bytes_ = cuda.size; }
  void Before(uint64_t index, const EventBatch* batch, size_t i) override;
  void Applied(uint64_t, uint32_t slot, const EventBatch&, size_t) override { touched_ = slot; }
  void TakeItems(const std::vector<BatchStream::Item>& items) override;

 private:
  struct Highest {
    uint64_t allocated = 0, reserved = 0;
  };

  void WriteEvent();
  void WriteTotals(uint32_t slot, bool has_device);
  void WriteSample(int64_t time_ns, const trace::DeviceCounters& device);

  LoadedTrace* loaded_;
  const LoadedLives::Progress& progress_;
  Database* database_;
  LivesFacts facts_;
  std::optional<RowTexts> texts_;
  const LabelReplay* replay_ = nullptr;
  std::optional<TableWriter> events_, counters_, samples_;
  EventRow pending_;  // the event before, whose totals are not written yet
  uint64_t pending_index_ = 0;
  bool has_pending_ = false;
  uint64_t freed_bytes_ = 0;  // by that event, outside of PyTorch's blocks
  uint32_t touched_ = 0;      // slot of the device whose totals it changed; 0 = none
  std::vector<Highest> highest_;
};

absl::Status EventRows::Read() {
  events_.emplace(database_, EventsTable(), texts_->dictionaries());
  counters_.emplace(database_, CountersTable());
  samples_.emplace(database_, SamplesTable());
  GPUMEM_RETURN_IF_ERROR(RunOnePass(loaded_->analysis.path, loaded_->stacks.objects(), loaded_->analysis.end_ns,
                                    [this](const LabelReplay& replay) {
                                      replay_ = &replay;
                                      return this;
                                    }));
  for (TableWriter* const writer : {&*events_, &*counters_, &*samples_}) GPUMEM_RETURN_IF_ERROR(writer->Close());
  return absl::OkStatus();
}

void EventRows::Before(uint64_t index, const EventBatch* batch, size_t i) {
  if (has_pending_) WriteEvent();
  has_pending_ = batch != nullptr;
  if (batch == nullptr) return;
  pending_ = batch->Row(i);
  pending_index_ = index;
  freed_bytes_ = 0;
  touched_ = 0;
  if (progress_ && index % kRowsPerProgress == 0) progress_(2, index);
}

void EventRows::WriteEvent() {
  const EventRow& row = pending_;
  const auto kind = static_cast<uint32_t>(row.kind);
  const bool is_mark = IsMark(kind);
  // The driver's calls name a range, or a handle: whose memory that is, the replay knows.
  const bool is_touched = touched_ != 0 && touched_ < replay_->state().slots();
  const int device = IsDeviceKnown(row.device) || !is_touched ? row.device : DeviceOfSlot(touched_);
  const bool has_device = !is_mark && IsDeviceKnown(device);
  const uint64_t size = row.size == 0 && row.kind == trace::FREE ? freed_bytes_ : row.size;
  events_->UInt(pending_index_).Int(texts_->Since(row.time_ns)).Enum(texts_->OfKind(kind));
  events_->Enum(RowTexts::OfLayer(static_cast<uint8_t>(row.layer)));
  row.layer == 0 ? events_->Null() : events_->Enum(RowTexts::OfMemory(static_cast<uint8_t>(row.memory)));
  has_device ? events_->Int(device) : events_->Null();
  events_->IntOrNull(row.address).UInt(size).IntOrNull(row.requested_size);
  events_->UInt(is_mark ? 0 : row.stream).UInt(row.handle);
  events_->UInt(is_mark && row.stream != 0 ? row.stream : texts_->ThreadOf(row.thread)).IntOrNull(row.stack);
  events_->Enum(texts_->OfApi(row.api)).Int(row.result).UInt(row.duration_ns);
  const bool has_text = HasText(kind) && row.text != 0;
  has_text ? events_->TextOrNull(loaded_->stacks.string(row.text)) : events_->Null();
  texts_->WriteStep(pending_index_, &*events_);
  const RowTexts::StackTexts& stack = texts_->OfStack(row.stack);
  events_->Enum(stack.module).Enum(stack.stage);
  WriteTotals(SlotOfDevice(device), has_device);
  events_->EndRow();
}

void EventRows::WriteTotals(uint32_t slot, bool has_device) {
  if (!has_device || slot >= replay_->state().slots()) {
    for (int i = 0; i < 6; ++i) events_->Null();
    return;
  }
  const MeasureValues& values = replay_->state().values(slot);
  if (slot >= highest_.size()) highest_.resize(slot + 1);
  Highest& highest = highest_[slot];
  highest.allocated = std::max(highest.allocated, values.allocated);
  highest.reserved = std::max(highest.reserved, values.reserved);
  events_->UInt(values.allocated).UInt(values.reserved).UInt(values.other).UInt(values.total);
  events_->UInt(highest.allocated).UInt(highest.reserved);
}

void EventRows::TakeItems(const std::vector<BatchStream::Item>& items) {
  for (const BatchStream::Item& item : items) {
    if (item.type != ItemType::kCounters) continue;
    const trace::Counters& read = item.counters;
    const int64_t time_ns = texts_->Since(read.time_ns());
    counters_->Int(time_ns).IntOrNull(read.process_rss_bytes()).IntOrNull(read.process_cpu_ns());
    counters_->UInt(read.shim_cpu_ns()).UInt(read.shim_ring_high_bytes()).IntOrNull(read.system_total_bytes());
    counters_->IntOrNull(read.system_available_bytes()).UInt(read.took_ns()).TextOrNull(read.source()).EndRow();
    for (const trace::DeviceCounters& device : read.devices()) WriteSample(time_ns, device);
  }
}

void EventRows::WriteSample(int64_t time_ns, const trace::DeviceCounters& device) {
  samples_->Int(time_ns).Int(device.device());
  samples_->IntOrNull(device.used_bytes(), device.has_used_bytes());
  samples_->IntOrNull(device.free_bytes(), device.has_free_bytes());
  samples_->IntOrNull(device.total_bytes(), device.has_total_bytes());
  samples_->IntOrNull(device.driver_reserved_bytes(), device.has_driver_reserved_bytes());
  samples_->IntOrNull(device.own_bytes(), device.has_own_bytes());
  samples_->IntOrNull(device.torch_allocated_bytes(), device.has_torch_allocated_bytes());
  samples_->IntOrNull(device.torch_reserved_bytes(), device.has_torch_reserved_bytes());
  samples_->IntOrNull(device.pool_reserved_bytes(), device.has_pool_reserved_bytes());
  samples_->IntOrNull(device.pool_used_bytes(), device.has_pool_used_bytes());
  samples_->IntOrNull(device.other_count(), device.has_other_count()).EndRow();
}

}  // namespace

absl::Status WriteEvents(LoadedTrace* loaded, const LoadedLives::Progress& progress, Database* database) {
  EventRows rows(loaded, progress, database);
  LoadedLives facts(loaded, &rows, progress);
  GPUMEM_RETURN_IF_ERROR(RunAnalyses(*loaded, {facts.analysis()}));
  GPUMEM_RETURN_IF_ERROR(facts.Finish());
  return AsReadError(rows.Read());
}

}  // namespace gpumem

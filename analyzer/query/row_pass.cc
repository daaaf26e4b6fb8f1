// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/row_pass.h"

#include <algorithm>

#include "query/schema.h"
#include "replay/state/accounts.h"
#include "trace/mark_ranges.h"

namespace gpumem {
namespace {

constexpr uint64_t kEventsPerProgress = 1u << 18;

bool IsDeviceKnown(int device) { return device >= 0 && device < kMaxDevices; }

}  // namespace

RowPass::RowPass(const Needs& needs, Database* database)
    : LifePass(needs.lives),
      needs_(needs),
      events_(database, EventsTable(), needs.texts->dictionaries()),
      blocks_(database, BlocksTable(), needs.texts->dictionaries()),
      segments_(database, SegmentsTable(), needs.texts->dictionaries()) {}

uint32_t RowPass::ThreadOf(uint32_t thread) const {
  const ThreadInfo* const info = needs_.names->thread(thread);
  return info != nullptr ? info->tid : thread;
}

void RowPass::Before(uint64_t index, const EventBatch* batch, size_t i) {
  if (has_pending_) WriteEvent();
  has_pending_ = batch != nullptr;
  LifePass::Before(index, batch, i);
  if (batch == nullptr) return;
  pending_ = batch->Row(i);
  pending_index_ = index;
  freed_bytes_ = 0;
  if (needs_.progress && index % kEventsPerProgress == 0) needs_.progress(index);
}

void RowPass::WriteEvent() {
  const EventRow& row = pending_;
  const RowTexts& texts = *needs_.texts;
  const auto kind = static_cast<uint32_t>(row.kind);
  const bool is_mark = IsMark(kind);
  const bool has_device = !is_mark && IsDeviceKnown(row.device);
  const uint64_t size = row.size == 0 && row.kind == trace::FREE ? freed_bytes_ : row.size;
  events_.UInt(pending_index_).Int(Since(row.time_ns)).Enum(texts.OfKind(kind));
  events_.Enum(RowTexts::OfLayer(static_cast<uint8_t>(row.layer)));
  row.layer == 0 ? events_.Null() : events_.Enum(RowTexts::OfMemory(static_cast<uint8_t>(row.memory)));
  has_device ? events_.Int(row.device) : events_.Null();
  events_.IntOrNull(row.address).UInt(size).IntOrNull(row.requested_size);
  events_.UInt(is_mark ? 0 : row.stream).UInt(row.handle);
  events_.UInt(is_mark && row.stream != 0 ? row.stream : ThreadOf(row.thread)).IntOrNull(row.stack);
  events_.Enum(texts.OfApi(row.api)).Int(row.result).UInt(row.duration_ns);
  const bool has_text = HasText(kind) && row.text != 0;
  has_text ? events_.TextOrNull(needs_.names->string(row.text)) : events_.Null();
  WriteStep(pending_index_, &events_);
  const RowTexts::StackTexts& stack = texts.OfStack(row.stack);
  events_.Enum(stack.module).Enum(stack.stage);
  WriteTotals(SlotOfDevice(row.device), has_device);
  events_.EndRow();
}

void RowPass::WriteTotals(uint32_t slot, bool has_device) {
  if (!has_device || slot >= state().slots()) {
    for (int i = 0; i < 6; ++i) events_.Null();
    return;
  }
  const MeasureValues& values = state().values(slot);
  if (slot >= highest_.size()) highest_.resize(slot + 1);
  Highest& highest = highest_[slot];
  highest.allocated = std::max(highest.allocated, values.allocated);
  highest.reserved = std::max(highest.reserved, values.reserved);
  events_.UInt(values.allocated).UInt(values.reserved).UInt(values.other).UInt(values.total);
  events_.UInt(highest.allocated).UInt(highest.reserved);
}

void RowPass::WriteStep(uint64_t event, TableWriter* writer) const {
  const Step* const step = needs_.steps->At(event);
  step == nullptr ? writer->Null() : writer->UInt(step->number);
}

void RowPass::WriteBirthAndDeath(const Life& life, TableWriter* writer) {
  writer->UInt(life.born).IntOrNull(life.end, life.end_ns != 0);
  const bool is_born_before = life.time_ns == 0 || life.time_ns < needs_.lives.analysis->origin_ns;
  is_born_before ? writer->Null() : writer->Int(Since(life.time_ns));
  life.end_ns == 0 ? writer->Null() : writer->Int(Since(life.end_ns));
}

void RowPass::Lived(const Life& life, const AttributedUse& use) {
  if (life.kind == LifeKind::kSegment) return WriteSegment(life, use);
  const RowTexts& texts = *needs_.texts;
  WriteBirthAndDeath(life, &blocks_);
  blocks_.Bool(life.kept);
  life.slot == 0 ? blocks_.Null() : blocks_.Int(DeviceOfSlot(life.slot));
  blocks_.Enum(RowTexts::OfLayer(use.layer)).Enum(RowTexts::OfMemory(use.memory));
  blocks_.UInt(life.address).UInt(life.size).IntOrNull(life.requested).UInt(use.tensor_bytes).IntOrNull(use.stack_id);
  const RowTexts::StackTexts& stack = texts.OfStack(use.stack_id);
  blocks_.Enum(stack.line).UInt(ThreadOf(life.thread)).Enum(texts.OfApi(life.api));
  blocks_.Enum(static_cast<uint32_t>(use.category)).Enum(static_cast<uint32_t>(use.evidence));
  blocks_.Enum(static_cast<uint32_t>(use.part));
  const RowTexts::ModuleTexts& module = texts.OfModule(use.module);
  blocks_.Enum(module.name).Enum(module.class_name).Enum(module.component);
  blocks_.Enum(stack.stage).Enum(texts.OfUserStage(use.user_stage)).Bool(stack.recomputed).Bool(life.saved);
  use.name == 0 ? blocks_.Null() : blocks_.TextOrNull(needs_.names->string(use.name));
  WriteStep(life.born, &blocks_);
  blocks_.EndRow();
}

void RowPass::CudaEnded(const CudaLife& cuda, uint64_t end) {
  freed_bytes_ = cuda.size;
  LifePass::CudaEnded(cuda, end);
}

void RowPass::SegmentEnded(const CudaLife& cuda, uint64_t end) {
  freed_bytes_ = cuda.size;
  LifePass::SegmentEnded(cuda, end);
}

void RowPass::WriteSegment(const Life& life, const AttributedUse& use) {
  const RowTexts& texts = *needs_.texts;
  WriteBirthAndDeath(life, &segments_);
  life.slot == 0 ? segments_.Null() : segments_.Int(DeviceOfSlot(life.slot));
  segments_.Enum(RowTexts::OfLayer(use.layer)).Enum(RowTexts::OfMemory(use.memory));
  segments_.UInt(life.address).UInt(life.size).IntOrNull(use.stack_id);
  segments_.Enum(texts.OfStack(use.stack_id).line).UInt(ThreadOf(life.thread)).Enum(texts.OfApi(life.api));
  WriteStep(life.born, &segments_);
  segments_.EndRow();
}

absl::Status RowPass::Close() {
  for (TableWriter* const writer : {&events_, &blocks_, &segments_}) {
    if (const absl::Status status = writer->Close(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/life_rows.h"

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "ledger/stacks/stack_view.h"
#include "query/schema.h"
#include "replay/state/accounts.h"
#include "symbols/stack_hash.h"

namespace gpumem {

void LifeRows::Begin(const LivesFacts& facts) {
  texts_.emplace(loaded_, &facts);
  blocks_.emplace(database_, BlocksTable(), texts_->dictionaries());
  segments_.emplace(database_, SegmentsTable(), texts_->dictionaries());
}

void LifeRows::Lived(const Life& life, const AttributedUse& use) {
  life.kind == LifeKind::kSegment ? WriteSegment(life, use) : TakeBlock(life, use);
}

void LifeRows::TakeBlock(const Life& life, const AttributedUse& use) {
  if (life.end_ns == 0) return WriteBlock(life, use, "allocated");
  const EndPools::Place place(life.slot == 0 ? -1 : DeviceOfSlot(life.slot), life.address);
  if (!pools_.pending().contains(place)) return WriteBlock(life, use, "freed");
  const auto [held, is_first] = pending_.try_emplace(place, life, use);
  if (is_first) return;
  std::pair<Life, AttributedUse> earlier(life, use);
  if (life.end > held->second.first.end) std::swap(held->second, earlier);
  WriteBlock(earlier.first, earlier.second, "freed");
}

// Those that were freed before the history began have no life.
void LifeRows::WritePendingFrees() {
  for (const auto& [place, block] : pools_.pending()) {
    if (const auto held = pending_.find(place); held != pending_.end()) {
      WriteBlock(held->second.first, held->second.second, "pending_free");
      continue;
    }
    Life life;
    life.end_ns = loaded_->analysis.origin_ns;
    life.address = place.second;
    life.size = block.size;
    life.requested = block.requested;
    life.slot = SlotOfDevice(place.first);
    AttributedUse use;
    use.stack_id = block.stack;
    use.layer = trace::TORCH;
    use.evidence = Evidence::kNone;
    WriteBlock(life, use, "pending_free");
  }
}

void LifeRows::WriteBirthAndDeath(const Life& life, TableWriter* writer) {
  writer->UInt(life.born).IntOrNull(life.end, life.end_ns != 0);
  const bool is_born_before = life.time_ns == 0 || life.time_ns < loaded_->analysis.origin_ns;
  is_born_before ? writer->Null() : writer->Int(texts_->Since(life.time_ns));
  life.end_ns == 0 ? writer->Null() : writer->Int(texts_->Since(life.end_ns));
}

void LifeRows::WriteBlock(const Life& life, const AttributedUse& use, absl::string_view state) {
  WriteBirthAndDeath(life, &*blocks_);
  blocks_->Bool(life.kept);
  life.slot == 0 ? blocks_->Null() : blocks_->Int(DeviceOfSlot(life.slot));
  blocks_->Enum(RowTexts::OfLayer(use.layer)).Enum(RowTexts::OfMemory(use.memory));
  blocks_->UInt(life.address).UInt(life.size).IntOrNull(life.requested).UInt(use.tensor_bytes).IntOrNull(use.stack_id);
  const RowTexts::StackTexts& stack = texts_->OfStack(use.stack_id);
  blocks_->Enum(stack.line).UInt(texts_->ThreadOf(life.thread)).Enum(texts_->OfApi(life.api));
  blocks_->Enum(static_cast<uint32_t>(use.category)).Enum(static_cast<uint32_t>(use.evidence));
  blocks_->Enum(texts_->OfPart(use.part));
  const RowTexts::ModuleTexts& module = texts_->OfModule(use.module);
  blocks_->Enum(module.name).Enum(module.class_name).Enum(module.component);
  blocks_->Enum(stack.stage).Enum(texts_->OfUserStage(use.user_stage)).Bool(stack.recomputed).Bool(life.saved);
  use.name == 0 ? blocks_->Null() : blocks_->TextOrNull(loaded_->stacks.string(use.name));
  texts_->WriteStep(life.born, &*blocks_);
  const bool is_there = state != "freed" && use.layer == trace::TORCH && life.slot != 0;
  const EndPools::Segment* const segment = is_there ? pools_.At(DeviceOfSlot(life.slot), life.address) : nullptr;
  blocks_->UInt(segment == nullptr ? life.stream : segment->stream);
  segment == nullptr ? blocks_->Null() : blocks_->Text(EndPools::NameOf(segment->pool));
  blocks_->Text(state);
  blocks_->EndRow();
}

void LifeRows::WriteSegment(const Life& life, const AttributedUse& use) {
  WriteBirthAndDeath(life, &*segments_);
  life.slot == 0 ? segments_->Null() : segments_->Int(DeviceOfSlot(life.slot));
  segments_->Enum(RowTexts::OfLayer(use.layer)).Enum(RowTexts::OfMemory(use.memory));
  segments_->UInt(life.address).UInt(life.size).IntOrNull(use.stack_id);
  segments_->Enum(texts_->OfStack(use.stack_id).line).UInt(texts_->ThreadOf(life.thread));
  segments_->Enum(texts_->OfApi(life.api));
  texts_->WriteStep(life.born, &*segments_);
  const bool is_there = life.end_ns == 0 && life.slot != 0;
  const EndPools::Segment* const segment = is_there ? pools_.At(DeviceOfSlot(life.slot), life.address) : nullptr;
  if (segment == nullptr) {
    segments_->Null().Null().Null();
  } else {
    segments_->UInt(segment->stream).Text(EndPools::NameOf(segment->pool));
    segments_->Text(segment->is_small ? "small" : "large");
  }
  segments_->EndRow();
}

absl::Status LifeRows::WriteStacks() {
  TableWriter stacks(database_, StacksTable()), frames(database_, FramesTable());
  for (const uint64_t stack : texts_->facts().stacks) {
    const std::vector<ResolvedFrame> resolved = loaded_->source->Frames(stack);
    const StackView view = ViewStack(resolved, "", loaded_->analysis.process.working_directory);
    const RowTexts::StackTexts& texts = texts_->OfStack(stack);
    stacks.UInt(stack).UInt(StackHash(loaded_->stacks, stack)).TextOrNull(view.site).TextOrNull(view.through);
    stacks.TextOrNull(absl::StrJoin(view.callers, " < ")).UInt(resolved.size());
    stacks.Text(StageName(static_cast<Stage>(texts.stage))).TextOrNull(texts_->ModuleName(texts.module)).EndRow();
    for (size_t depth = 0; depth < resolved.size(); ++depth) {
      const ResolvedFrame& frame = resolved[depth];
      frames.UInt(stack).UInt(depth).Text(frame.short_function).TextOrNull(frame.file).IntOrNull(frame.line);
      frames.TextOrNull(frame.module).Bool(frame.python).Bool(frame.inlined).EndRow();
    }
  }
  GPUMEM_RETURN_IF_ERROR(stacks.Close());
  return frames.Close();
}

absl::Status LifeRows::Close() {
  WritePendingFrees();
  GPUMEM_RETURN_IF_ERROR(blocks_->Close());
  GPUMEM_RETURN_IF_ERROR(segments_->Close());
  return WriteStacks();
}

}  // namespace gpumem

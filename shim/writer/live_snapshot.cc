// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/live_snapshot.h"

#include <string.h>

#include "shim/base/proto_writer.h"
#include "shim/writer/fields.h"

namespace gpumemshim::writer {
namespace {

constexpr uint64_t kPacketBytes = uint64_t{4} << 20;

}  // namespace

void DefinitionHistory::Keep(const Buffer& definitions) {
  if (definitions.size() == 0) return;
  if (!bytes_.Reserve(bytes_.size() + definitions.size()) || !ends_.Push(bytes_.size() + definitions.size())) {
    lost_++;
    return;
  }
  memcpy(bytes_.data() + bytes_.size(), definitions.data(), definitions.size());
  bytes_.Resize(bytes_.size() + definitions.size());
}

bool DefinitionHistory::Write(TraceFile* file, Buffer* scratch) const {
  uint64_t start = 0;
  for (size_t i = 0; i < ends_.size(); i++) {
    if (i + 1 < ends_.size() && ends_[i + 1] - start < kPacketBytes) continue;
    scratch->Clear();
    ProtoWriter w(scratch);
    size_t packet = w.Open(fields::Trace::kPacket);
    w.Bytes(fields::Packet::kDefinitions, bytes_.data() + start, ends_[i] - start);
    w.Close(packet);
    if (!w.ok() || !file->AppendCompressed(*scratch)) return false;
    start = ends_[i];
  }
  return true;
}

bool WriteLiveSnapshot(LiveSet* live, EventBatch* batch, TraceFile* file, Buffer* scratch) {
  using Field = fields::LiveSnapshot;
  if (!live->Sort()) return file->Fail("no memory for the live set");
  uint32_t at = 0;
  do {
    scratch->Clear();
    batch->Clear();
    ProtoWriter w(scratch);
    const bool begins = at == 0;
    size_t packet = w.Open(fields::Trace::kPacket);
    size_t message = w.Open(fields::Packet::kLiveSnapshot);
    size_t segments = w.Open(Field::kTorchSegments);
    for (; at < live->count() && !batch->full() && w.Room(ProtoWriter::kMaxVarint); at++) {
      const LiveSet::Entry& entry = (*live)[at];
      if (entry.torch_segment) w.SetEnd(ProtoWriter::PutVarint(w.End(), batch->count()));
      batch->Add(entry.event, entry.ids.thread, entry.ids.stack, entry.ids.api);
    }
    w.Close(segments);
    size_t events = w.Open(Field::kEvents);
    batch->Encode(&w);
    w.Close(events);
    w.VarintIf(Field::kBegins, begins ? 1 : 0);
    w.VarintIf(Field::kLost, live->lost());
    w.Close(message);
    w.Close(packet);
    batch->Clear();
    if (!w.ok() || !file->AppendCompressed(*scratch)) return false;
  } while (at < live->count());
  return true;
}

}  // namespace gpumemshim::writer

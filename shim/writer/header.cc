// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/header.h"

#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/ring/ring.h"
#include "shim/writer/fields.h"

namespace gpumemshim::writer {
namespace {

using Field = fields::Header;

void PutMap(ProtoWriter* w, uint32_t field, const KeyValue* pairs, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    size_t mark = w->Open(field);
    w->StringIf(fields::MapEntry::kKey, pairs[i].key);
    w->StringIf(fields::MapEntry::kValue, pairs[i].value);
    w->Close(mark);
  }
}

// One instant on both clocks: the wall clock is read between two readings of the other, and the closest pair of a few
// is taken.
void PutAnchors(ProtoWriter* w) {
  uint64_t best_ns = UINT64_MAX, monotonic_ns = 0, realtime_ns = 0;
  for (int i = 0; i < 3; i++) {
    uint64_t before_ns = MonotonicNs();
    uint64_t wall_ns = ClockNs(CLOCK_REALTIME);
    uint64_t after_ns = MonotonicNs();
    if (after_ns - before_ns >= best_ns) continue;
    best_ns = after_ns - before_ns;
    monotonic_ns = before_ns + best_ns / 2;
    realtime_ns = wall_ns;
  }
  w->Varint(Field::kAnchorMonotonicNs, monotonic_ns);
  w->Varint(Field::kAnchorRealtimeNs, realtime_ns);
}

}  // namespace

void EncodeHeader(const HeaderInfo& info, const PartInfo& part, ProtoWriter* w) {
  w->Varint(Field::kFormatVersion, fields::kFormatVersion);
  w->StringIf(Field::kWriterVersion, info.writer_version);
  w->Varint(Field::kPid, static_cast<uint64_t>(getpid()));
  w->Varint(Field::kParentPid, static_cast<uint64_t>(getppid()));
  w->VarintIf(Field::kProcessStartTicks, info.process_start_ticks);
  w->StringIf(Field::kHostname, info.hostname);
  w->StringIf(Field::kProgram, info.program);
  w->StringIf(Field::kExecutable, info.executable);
  for (uint32_t i = 0; i < info.command_line_count; i++) w->String(Field::kCommandLine, info.command_line[i]);
  w->StringIf(Field::kWorkingDirectory, info.working_directory);
  PutMap(w, Field::kEnvironment, info.environment, info.environment_count);
  // Optional fields: present means known, also where it is 0.
  if (info.rank >= 0) w->Varint(Field::kRank, static_cast<uint64_t>(info.rank));
  if (info.world_size >= 0) w->Varint(Field::kWorldSize, static_cast<uint64_t>(info.world_size));
  if (info.local_rank >= 0) w->Varint(Field::kLocalRank, static_cast<uint64_t>(info.local_rank));
  PutAnchors(w);
  size_t mark = w->Open(Field::kRing);
  w->StringIf(fields::Ring::kPath, ring::Path());
  w->VarintIf(fields::Ring::kSizeBytes, ring::GetStats().size_bytes);
  w->Close(mark);
  PutMap(w, Field::kSettings, info.settings, info.settings_count);
  for (uint32_t i = 0; i < info.ancestor_count; i++) {
    mark = w->Open(Field::kAncestors);
    w->Varint(fields::Ancestor::kPid, info.ancestors[i].pid);
    w->Varint(fields::Ancestor::kStartTicks, info.ancestors[i].start_ticks);
    w->StringIf(fields::Ancestor::kName, info.ancestors[i].name);
    w->Close(mark);
  }
  w->VarintIf(Field::kPidNamespace, info.pid_namespace);
  if (info.boot_id != nullptr) w->Bytes(Field::kBootId, info.boot_id, 16);
  if (part.number == 0) return;
  mark = w->Open(Field::kPart);
  w->Varint(fields::Part::kSeries, part.series);
  w->Varint(fields::Part::kNumber, part.number);
  w->VarintIf(fields::Part::kEventsBefore, part.events_before);
  w->VarintIf(fields::Part::kContiguous, part.contiguous ? 1 : 0);
  w->Close(mark);
}

}  // namespace gpumemshim::writer

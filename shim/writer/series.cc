// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/series.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>

#include "shim/base/clock.h"
#include "shim/base/flat_table.h"
#include "shim/base/kernel.h"
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

namespace {

constexpr uint64_t kBytesPerEvent = 4;
constexpr char kExtension[] = ".gmtrace";

// By which a plain file is distinguished from what somebody else put in its place, on whatever disk; 0 where there is
// none.
uint64_t IdentityOf(const char* path) {
  struct stat status;
  if (kernel::Lstat(path, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return (MixBits(status.st_dev) ^ status.st_ino) | uint64_t{1} << 63;
}

}  // namespace

uint64_t Series::PartBytes() const {
  const uint64_t wanted = limit_.max_bytes / kParts;
  const uint64_t grown = std::min(std::max(wanted, 4 * base_bytes_), limit_.max_bytes / 2);
  return std::max({wanted, grown, 2 * base_bytes_ + 4096});
}

uint32_t Series::EventsPerPacket(uint32_t most) const {
  if (limit_.max_bytes == 0) return most;
  const uint64_t file_bytes = enabled() ? PartBytes() : limit_.max_bytes;
  return static_cast<uint32_t>(std::clamp<uint64_t>(file_bytes / 16 / kBytesPerEvent, 256, most));
}

void Series::Identify(uint64_t now_ns) { id_ = MixBits(now_ns ^ static_cast<uint64_t>(getpid()) << 40) | 1; }

void Series::Begin(const char* path) {
  if (number_++ == 0) snprintf(first_path_, sizeof(first_path_), "%s", path);
  base_bytes_ = 0;
  snprintf(current_.path, sizeof(current_.path), "%s", path);
  current_.identity = IdentityOf(path);
}

void Series::Drop(size_t index) {
  finished_bytes_ -= finished_[index].bytes;
  memmove(static_cast<void*>(finished_.data() + index), finished_.data() + index + 1,
          (finished_.size() - 1 - index) * sizeof(Part));
  finished_.Resize(finished_.size() - 1);
}

void Series::Finish(uint64_t bytes) {
  current_.bytes = bytes;
  if (!finished_.Push(current_)) return;
  finished_bytes_ += bytes;
  // The last finished one stays in any case: the next file may be cut off in its first words.
  while (limit_.on_full == OnFull::kLast && finished_.size() > 1 && finished_bytes_ + PartBytes() > limit_.max_bytes) {
    const Part& oldest = finished_[0];
    if (oldest.identity != 0 && IdentityOf(oldest.path) == oldest.identity) unlink(oldest.path);
    Drop(0);
  }
}

bool Series::Fits(uint64_t bytes) {
  if (finished_bytes_ + bytes <= limit_.max_bytes) return true;
  for (size_t i = finished_.size(); i-- > 0;) {
    if (IdentityOf(finished_[i].path) != finished_[i].identity) Drop(i);  // moved away, or removed
  }
  return finished_bytes_ + bytes <= limit_.max_bytes;
}

bool Series::HasRoom(uint64_t bytes) { return limit_.on_full != OnFull::kRotate || Fits(bytes + PartBytes()); }

// EventsPerPacket counts on four bytes an event and gives a packet a sixteenth of a part; events without any pattern
// take up to sixteen bytes.
bool Series::Spent(uint64_t bytes) { return limit_.on_full == OnFull::kRotate && !Fits(bytes + PartBytes() / 4); }

bool Series::NextPath(char* out, size_t capacity) const {
  size_t stem = strlen(first_path_);
  const size_t extension = sizeof(kExtension) - 1;
  const bool has_extension = stem > extension && strcmp(first_path_ + stem - extension, kExtension) == 0;
  if (has_extension) stem -= extension;
  const int size = snprintf(out, capacity, "%.*s.part%u%s", static_cast<int>(stem), first_path_, number_ + 1,
                            has_extension ? kExtension : "");
  return size > 0 && static_cast<size_t>(size) < capacity;
}

}  // namespace gpumemshim::writer

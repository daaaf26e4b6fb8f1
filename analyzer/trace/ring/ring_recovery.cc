// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/ring/ring_recovery.h"

#include <google/protobuf/stubs/logging.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "trace/event_batch.h"
#include "trace/limits.h"
#include "trace/ring/ring_definitions.h"
#include "trace/ring/ring_file.h"
#include "trace/series.h"

namespace gpumem {
namespace {

constexpr int kMaxEventsInABatch = 1 << 16;
constexpr uint32_t kSyncWord = 0x31544D47;

bool ParsePacket(const RawPacket& packet, google::protobuf::Message* message) {
  const google::protobuf::LogSilencer silencer;
  return message->ParseFromArray(packet.body.data(), static_cast<int>(packet.body.size()));
}

// What a recovery must know of the trace: of one process in it.
struct TraceEnd {
  bool readable = false;
  bool ended = false;
  bool continued = false;
  trace::Header header;
  trace::Losses losses;
  TraceIds ids;
  uint64_t whole_bytes = 0;
  uint64_t last_sequence = 0;
  bool is_last = true;
};

// Of the process whose header stands at `offset`, or lies in a file before. Adds to `ids`.
TraceEnd ReadTrace(PacketReader* reader, uint64_t offset, TraceIds ids) {
  TraceEnd end;
  end.ids = std::move(ids);
  reader->Seek(offset);
  RawPacket packet;
  PacketReader::Outcome outcome;
  trace::Definitions definitions;
  bool has_header = false, lacks_packets = false;
  while ((outcome = reader->Next(&packet)) == PacketReader::Outcome::kPacket) {
    if (packet.type == PacketType::kHeader) {
      trace::Header header;
      if (!ParsePacket(packet, &header)) return TraceEnd();
      if (has_header && !IsBehind(header.part(), end.header.part())) {
        end.whole_bytes = packet.file_offset;
        end.readable = !lacks_packets;
        end.is_last = false;
        return end;
      }
      end.continued = false;
      has_header = true;
      end.header = std::move(header);
    }
    lacks_packets |= packet.missing != 0;
    if (!packet.compressed) end.last_sequence = packet.sequence;
    if (packet.type == PacketType::kDefinitions && ParsePacket(packet, &definitions)) end.ids.Add(definitions);
    if (packet.type == PacketType::kLosses) ParsePacket(packet, &end.losses);
    end.ended |= packet.type == PacketType::kEnd;
    end.continued |= packet.type == PacketType::kContinued;
  }
  end.whole_bytes = reader->position();
  end.readable = has_header && !lacks_packets && (outcome == PacketReader::Outcome::kEnd || reader->cut_short());
  return end;
}

struct OrderedEvent {
  const format::Event* event;
  uint32_t thread;
};

// All threads' events in one order: by time, frees first where times are equal, a thread's own order kept.
std::vector<OrderedEvent> MergeLanes(const RingContents& contents) {
  struct Head {
    uint64_t time_ns;
    bool is_no_free;
    uint32_t thread;
    size_t index;
    bool operator<(const Head& other) const {  // the smallest comes out first
      return std::tie(other.time_ns, other.is_no_free, other.thread) < std::tie(time_ns, is_no_free, thread);
    }
  };
  std::priority_queue<Head> heads;
  const auto push = [&](uint32_t thread, const std::vector<format::Event>& events, size_t index) {
    if (index < events.size()) heads.push({events[index].time_ns, !format::IsFree(events[index].kind), thread, index});
  };
  for (const auto& [serial, thread] : contents.threads) push(serial, thread.events, 0);
  std::vector<OrderedEvent> merged;
  while (!heads.empty()) {
    const Head head = heads.top();
    heads.pop();
    const std::vector<format::Event>& events = contents.threads.at(head.thread).events;
    merged.push_back({&events[head.index], head.thread});
    push(head.thread, events, head.index + 1);
  }
  return merged;
}

// A column of values that are all 0 is left out, one of equal values has a single element.
template <typename Field>
void Shorten(Field* field) {
  if (field->empty() || std::any_of(field->begin(), field->end(), [&](auto value) { return value != field->Get(0); }))
    return;
  field->Truncate(field->Get(0) == 0 ? 0 : 1);
}

void ShortenColumns(trace::EventBatch* batch) {
  Shorten(batch->mutable_kind());
  Shorten(batch->mutable_layer());
  Shorten(batch->mutable_memory());
  Shorten(batch->mutable_device());
  Shorten(batch->mutable_size());
  Shorten(batch->mutable_requested_size());
  Shorten(batch->mutable_stream());
  Shorten(batch->mutable_handle());
  Shorten(batch->mutable_thread());
  Shorten(batch->mutable_stack());
  Shorten(batch->mutable_tag());
  Shorten(batch->mutable_result());
  Shorten(batch->mutable_duration_ns());
  Shorten(batch->mutable_api());
  Shorten(batch->mutable_text());
}

std::string EncodeBatch(const OrderedEvent* events, int count, RingDefinitions* definitions) {
  trace::EventBatch batch;
  batch.set_count(static_cast<uint32_t>(count));
  batch.set_first_time_ns(events[0].event->time_ns);
  uint64_t time_ns = events[0].event->time_ns, address = 0;
  for (int i = 0; i < count; ++i) {
    const format::Event& e = *events[i].event;
    batch.add_time_delta_ns(static_cast<int64_t>(e.time_ns - time_ns));
    batch.add_address_delta(static_cast<int64_t>(e.address - address));
    time_ns = e.time_ns;
    address = e.address;
    batch.add_kind(static_cast<trace::EventKind>(e.kind));
    batch.add_layer(static_cast<trace::Layer>(e.layer));
    batch.add_memory(static_cast<trace::Memory>(e.memory));
    batch.add_device(e.device);
    batch.add_size(e.size);
    batch.add_requested_size(e.requested_size);
    batch.add_stream(e.stream);
    batch.add_handle(e.handle);
    batch.add_thread(events[i].thread);
    batch.add_stack(definitions->StackId(e.stack));
    batch.add_tag(e.tag);
    batch.add_result(e.result);
    batch.add_duration_ns(e.duration_ns);
    batch.add_api(definitions->ApiId(e.api));
    batch.add_text(HasText(e.kind) ? definitions->TextId(e.torch_allocated) : 0);
    definitions->UseThread(events[i].thread);
  }
  ShortenColumns(&batch);
  return batch.SerializeAsString();
}

// The ring's header counts what was dropped up to the last instant, the trace what it knew at its last packet.
bool KnowsMoreLosses(const format::RingHeader& ring, const trace::Losses& losses) {
  return ring.dropped_allocs > losses.dropped_allocs() || ring.dropped_frees > losses.dropped_frees() ||
         ring.dropped_definitions > losses.dropped_definitions() || ring.truncated_stacks > losses.truncated_stacks();
}

std::string EncodeLosses(trace::Losses losses, const format::RingHeader& ring, uint64_t events) {
  losses.set_dropped_allocs(std::max(losses.dropped_allocs(), ring.dropped_allocs));
  losses.set_dropped_frees(std::max(losses.dropped_frees(), ring.dropped_frees));
  losses.set_dropped_definitions(std::max(losses.dropped_definitions(), ring.dropped_definitions));
  losses.set_truncated_stacks(std::max(losses.truncated_stacks(), ring.truncated_stacks));
  losses.set_recovered_events(events);
  return losses.SerializeAsString();
}

void TakeFrom(const RingFile& ring, const RingContents& contents, TraceIds ids, const trace::Losses& losses,
              Recovery* recovery) {
  const std::vector<OrderedEvent> events = MergeLanes(contents);
  RingDefinitions definitions(&contents, std::move(ids));
  if (std::string body = definitions.TakeReady(); !events.empty() && !body.empty())
    recovery->packets.push_back({PacketType::kDefinitions, std::move(body)});
  // In front of the events, any of which may stand behind what was dropped.
  if (!events.empty() || KnowsMoreLosses(ring.header(), losses))
    recovery->packets.push_back({PacketType::kLosses, EncodeLosses(losses, ring.header(), events.size())});
  for (size_t at = 0, end = 0; at < events.size(); at = end) {
    end = std::min<size_t>(at + kMaxEventsInABatch, events.size());
    // The beginning of a recording begins a batch (trace.proto).
    for (size_t i = at + 1; i < end; ++i) {
      if (events[i].event->kind == format::EventKind::kRecordingStart) end = i;
    }
    const int count = static_cast<int>(end - at);
    std::string batch = EncodeBatch(&events[at], count, &definitions);
    if (std::string body = definitions.Take(); !body.empty())
      recovery->packets.push_back({PacketType::kDefinitions, std::move(body)});
    recovery->packets.push_back({PacketType::kEvents, std::move(batch)});
  }
  recovery->events = events.size();
  recovery->read_ring = true;
  if (contents.broken_chunks > 0) {
    recovery->note = absl::StrCat(contents.broken_chunks,
                                  " of the ring's chunks are damaged; what stood in them behind "
                                  "the damage is lost.");
  }
}

// Why the ring is not the one of this trace, or "".
std::string Foreign(const RingFile& ring, absl::string_view path, absl::string_view trace_path,
                    const trace::Header& header) {
  if (ring.header().pid != header.pid() || ring.header().process_start_ticks != header.process_start_ticks())
    return absl::StrCat(path, " belongs to another process and was not read.");
  struct stat info {};
  if (stat(std::string(trace_path).c_str(), &info) != 0 || info.st_uid != ring.owner_uid())
    return absl::StrCat(path,
                        " belongs to another user than the trace and was not read. To use it all the same: "
                        "gpumemshim export trace ",
                        path);
  return "";
}

// The ring that others put beside the trace when its process was gone, where it is this trace's; else an error.
absl::StatusOr<RingFile> OpenMoved(const std::string& path, absl::string_view trace_path, const trace::Header& header) {
  GPUMEM_ASSIGN_OR_RETURN(RingFile ring, RingFile::Open(path));
  const std::string& named = header.ring().path();
  if (ring.header().moved == 0 || !IsNameOfRing(named.substr(named.rfind('/') + 1), ring.header()) ||
      !Foreign(ring, path, trace_path, header).empty())
    return absl::NotFoundError("another trace's");
  return ring;
}

// The same, with its place: a name of its own where the process was killed before the ring knew its trace.
absl::StatusOr<RingFile> OpenBeside(absl::string_view trace_path, const trace::Header& header, std::string* place) {
  const std::vector<absl::string_view> name = absl::StrSplit(header.ring().path(), '.');  // "...START.1f3a.ring"
  const absl::string_view id = name.size() < 2 ? absl::string_view() : name[name.size() - 2];
  for (const std::string& path : {absl::StrCat(trace_path, ".ring"), absl::StrCat(trace_path, ".", id, ".ring")}) {
    absl::StatusOr<RingFile> ring = OpenMoved(path, trace_path, header);
    if (!ring.ok()) continue;
    *place = path;
    return ring;
  }
  return absl::NotFoundError("none is there");
}

uint64_t ClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Sets the state of the process, where the ring is, and why it is not read.
absl::StatusOr<RingFile> FindRing(absl::string_view trace_path, const trace::Header& header, Recovery* recovery) {
  const absl::Status nothing = absl::NotFoundError("");
  const std::string named = header.ring().path();
  if (recovery->recovered_before == 0) {
    absl::StatusOr<RingFile> moved = OpenBeside(trace_path, header, &recovery->ring_path);
    if (moved.ok()) {
      recovery->process = ProcessState::kEnded;
      return moved;
    }
  }
  recovery->process = StateOfRing(named, header.pid(), header.process_start_ticks());
  if (recovery->process == ProcessState::kUnknown) recovery->process = StateOf(header);
  if (recovery->process != ProcessState::kEnded || named.empty() || recovery->recovered_before != 0) return nothing;
  absl::StatusOr<RingFile> ring = RingFile::Open(named);
  if (absl::IsNotFound(ring.status())) {  // it may have been moved meanwhile
    ring = OpenBeside(trace_path, header, &recovery->ring_path);
    if (!ring.ok()) return nothing;
  }
  recovery->note = ring.ok() ? Foreign(*ring, recovery->ring_path, trace_path, header)
                             : absl::StrCat("The ring was not read: ", ring.status().message(), ".");
  if (!recovery->note.empty()) return nothing;
  return ring;
}

}  // namespace

RingsOfTrace::RingsOfTrace(absl::string_view trace_path) : path_(trace_path), series_(FindSeries(trace_path)) {
  if (absl::StatusOr<PacketReader> reader = PacketReader::Open(path_); reader.ok()) reader_ = *std::move(reader);
}

Recovery RingsOfTrace::Recover(uint64_t header_offset) {
  Recovery recovery;
  if (!reader_) return recovery;
  // A file of a series repeats all definitions, but the last one may be cut off before their end.
  TraceIds before;
  for (size_t i = 1; i < series_.files.size() && header_offset == 0; ++i) {
    if (series_.files[i].path != path_) continue;
    absl::StatusOr<PacketReader> reader = PacketReader::Open(series_.files[i - 1].path);
    if (reader.ok()) before = ReadTrace(&*reader, 0, TraceIds()).ids;
  }
  TraceEnd end = ReadTrace(&*reader_, header_offset, std::move(before));
  recovery.is_last = end.is_last;
  recovery.whole_bytes = end.whole_bytes;
  if (end.continued && !(series_.next_was_begun && series_.files.back().path == path_)) {
    recovery.note = absl::StrCat(path_, " goes on in the next file of its series.");
    return recovery;
  }
  if (!end.readable) return recovery;
  recovery.complete = end.ended;
  recovery.next_sequence = end.last_sequence + 1;
  recovery.recovered_before = end.losses.recovered_events();
  recovery.ring_path = end.header.ring().path();
  if (end.ended) return recovery;
  if (!recovery.ring_path.empty() && recovery.recovered_before == 0 && rings_read_++ >= kMaxRings) {
    recovery.end_unknown = true;
    if (rings_read_ == kMaxRings + 1) {
      recovery.note = absl::StrCat(path_, " holds more than ", kMaxRings,
                                   " killed processes: the rings of the others were not read.");
    }
    return recovery;
  }
  const absl::StatusOr<RingFile> ring = FindRing(path_, end.header, &recovery);
  recovery.end_unknown = recovery.process != ProcessState::kRunning && recovery.recovered_before == 0;
  if (!ring.ok()) return recovery;
  recovery.end_unknown = false;
  TakeFrom(*ring, ring->Read(end.last_sequence), std::move(end.ids), end.losses, &recovery);
  return recovery;
}

Recovery RecoverFromRing(absl::string_view trace_path) {
  RingsOfTrace all(trace_path);
  Recovery recovery = all.Recover(0);
  while (!recovery.is_last) recovery = all.Recover(recovery.whole_bytes);
  return recovery;
}

absl::StatusOr<Recovery> RecoverRingAlone(absl::string_view ring_path) {
  GPUMEM_ASSIGN_OR_RETURN(const RingFile ring, RingFile::Open(ring_path));
  Recovery recovery;
  recovery.ring_path = std::string(ring_path);
  recovery.process = ring.header().moved != 0
                         ? ProcessState::kEnded
                         : StateOfRing(ring_path, ring.header().pid, ring.header().process_start_ticks);
  if (recovery.process == ProcessState::kUnknown)
    recovery.process = StateOfProcess(ring.header().pid, ring.header().process_start_ticks);
  if (recovery.process == ProcessState::kRunning) {
    return absl::FailedPreconditionError(absl::StrCat("process ", ring.header().pid, " still runs and writes to ",
                                                      ring_path, ". Its trace holds all but the last 100 ms"));
  }
  const RingContents contents = ring.Read(0);
  trace::Header header;
  header.set_format_version(1);
  header.set_pid(ring.header().pid);
  header.set_process_start_ticks(ring.header().process_start_ticks);
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) == 0) header.set_hostname(name);
  const format::RingHeader& known = ring.header();
  header.set_parent_pid(known.parent_pid);
  header.set_program(EscapeControls(absl::string_view(known.program, strnlen(known.program, sizeof(known.program)))));
  // A ring lies in memory as a rule, so where it does not say, the clock is still the one that its events were timed
  // by.
  const bool has_anchor = known.anchor_monotonic_ns != 0 && known.anchor_realtime_ns != 0;
  header.set_anchor_monotonic_ns(has_anchor ? known.anchor_monotonic_ns : ClockNs(CLOCK_MONOTONIC));
  header.set_anchor_realtime_ns(has_anchor ? known.anchor_realtime_ns : ClockNs(CLOCK_REALTIME));
  recovery.packets.push_back({PacketType::kHeader, header.SerializeAsString()});
  TakeFrom(ring, contents, TraceIds(), trace::Losses(), &recovery);
  if (contents.was_read && recovery.note.empty()) {
    recovery.note =
        "Part of what this process recorded is in a trace file already. To have all of it in one, name that file.";
  }
  return recovery;
}

std::string FramePacket(const RecoveredPacket& packet, uint64_t sequence) {
  trace::Packet head;
  head.set_sync(kSyncWord);
  head.set_sequence(sequence);
  std::string bytes = head.SerializeAsString();
  const auto varint = [](uint64_t value, std::string* out) {
    for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
    out->push_back(static_cast<char>(value));
  };
  varint(static_cast<uint64_t>(packet.type) << 3 | 2, &bytes);
  varint(packet.body.size(), &bytes);
  bytes += packet.body;
  trace::Packet tail;
  tail.set_checksum(XXH3_64bits(bytes.data(), bytes.size()));
  bytes += tail.SerializeAsString();
  std::string framed(1, '\x0a');
  varint(bytes.size(), &framed);
  return framed + bytes;
}

}  // namespace gpumem

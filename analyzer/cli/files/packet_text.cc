// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/files/packet_text.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "export/exporter.h"
#include "gpumem/trace.pb.h"
#include "ledger/load/find_traces.h"
#include "ledger/saved/import_cache.h"
#include "ledger/stacks/names.h"
#include "trace/packet_reader.h"
#include "trace/reader.h"
#include "trace/ring/ring_recovery.h"

namespace gpumem {
namespace {

constexpr size_t kFlushBytes = 1 << 18;

// The message of a packet's type, parsed; nullptr where the bytes are no such message or the type is of a newer
// version.
std::unique_ptr<google::protobuf::Message> ParseBody(const RawPacket& packet) {
  std::unique_ptr<google::protobuf::Message> message;
  switch (packet.type) {
    case PacketType::kHeader:
      message = std::make_unique<trace::Header>();
      break;
    case PacketType::kDefinitions:
      message = std::make_unique<trace::Definitions>();
      break;
    case PacketType::kEvents:
      message = std::make_unique<trace::EventBatch>();
      break;
    case PacketType::kCounters:
      message = std::make_unique<trace::Counters>();
      break;
    case PacketType::kLosses:
      message = std::make_unique<trace::Losses>();
      break;
    case PacketType::kEnd:
      message = std::make_unique<trace::End>();
      break;
    case PacketType::kLiveSnapshot:
      message = std::make_unique<trace::LiveSnapshot>();
      break;
    case PacketType::kContinued:
      message = std::make_unique<trace::Continued>();
      break;
    case PacketType::kCupti:
      message = std::make_unique<trace::Cupti>();
      break;
    case PacketType::kAllocatorState:
      message = std::make_unique<trace::AllocatorState>();
      break;
    case PacketType::kNone:
      return nullptr;
  }
  if (message == nullptr || !message->ParseFromArray(packet.body.data(), static_cast<int>(packet.body.size())))
    return nullptr;
  return message;
}

absl::string_view TypeName(PacketType type) {
  switch (type) {
    case PacketType::kHeader:
      return "header";
    case PacketType::kDefinitions:
      return "definitions";
    case PacketType::kEvents:
      return "events";
    case PacketType::kCounters:
      return "counters";
    case PacketType::kLosses:
      return "losses";
    case PacketType::kEnd:
      return "end";
    case PacketType::kLiveSnapshot:
      return "live_snapshot";
    case PacketType::kContinued:
      return "continued";
    case PacketType::kCupti:
      return "cupti";
    case PacketType::kAllocatorState:
      return "allocator_state";
    case PacketType::kNone:
      break;
  }
  return "unknown";
}

// The reader's word for a Compressed packet whose content comes next.
bool IsWrapper(const RawPacket& packet) { return packet.type == PacketType::kNone && packet.body.empty(); }

void AppendPacketText(const RawPacket& packet, std::string* out) {
  if (IsWrapper(packet)) return;
  absl::StrAppendFormat(out, "# packet %d at byte %d: %s%s, %d bytes\n", packet.sequence, packet.file_offset,
                        std::string(TypeName(packet.type)), packet.compressed ? " (was compressed)" : "",
                        packet.body.size());
  const auto message = ParseBody(packet);
  if (message == nullptr) {
    absl::StrAppend(out, "# not readable as this version's ", TypeName(packet.type), "\n\n");
    return;
  }
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(*message, &text);
  absl::StrAppend(out, text, "\n");
}

void AppendPacketJson(const RawPacket& packet, std::string* out) {
  if (IsWrapper(packet)) return;
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kOneLine);
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("sequence", packet.sequence);
  json.Field("file_offset", packet.file_offset);
  json.Field("compressed", packet.compressed);
  json.Field("type", TypeName(packet.type));
  json.Field("bytes", packet.body.size());
  std::string data;
  const auto message = ParseBody(packet);
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  const bool whole = message != nullptr && google::protobuf::util::MessageToJsonString(*message, &data, options).ok();
  json.Key("data");
  json.Raw(whole ? absl::string_view(data) : absl::string_view("null"));
  json.EndObject();
  out->push_back('\n');
}

void AppendEventText(const EventRow& e, uint64_t since, const StackTable& table, std::string* out) {
  absl::StrAppendFormat(out, "%d.%09d %s %s %s device=%d address=0x%x size=%d", since / 1'000'000'000,
                        since % 1'000'000'000, std::string(LayerName(static_cast<uint8_t>(e.layer))),
                        EventKindName(static_cast<uint32_t>(e.kind)),
                        std::string(MemoryName(static_cast<uint8_t>(e.memory))), e.device, e.address, e.size);
  const auto field = [out](const char* name, uint64_t value) {
    if (value != 0) absl::StrAppend(out, " ", name, "=", value);
  };
  field("requested", e.requested_size);
  if (e.stream != 0) absl::StrAppendFormat(out, " stream=0x%x", e.stream);
  if (e.handle != 0) absl::StrAppendFormat(out, " handle=0x%x", e.handle);
  if (e.result != 0) absl::StrAppend(out, " result=", e.result);
  field("took_ns", e.duration_ns);
  field("thread", e.thread);
  field("stack", e.stack);
  field("tag", e.tag);
  if (e.api != 0) absl::StrAppend(out, " api=", EscapeControls(table.string(e.api)));
  out->push_back('\n');
}

void AppendEventJson(const EventRow& e, uint64_t since, const StackTable& table, std::string* out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kOneLine);
  json.Field("schema_version", kJsonSchemaVersion);
  WriteJsonEvent(e, since, &json);
  json.Field("handle", absl::StrFormat("0x%x", e.handle));
  json.Field("result", e.result);
  json.Field("took_ns", e.duration_ns);
  json.Field("thread", e.thread);
  json.Field("stack", e.stack);
  json.Field("tag", e.tag);
  json.Field("api", table.string(e.api));
  json.EndObject();
  out->push_back('\n');
}

absl::StatusOr<int> Finish(const absl::Status& opened, const std::string& damage, Console* console) {
  if (!opened.ok()) return AsReadError(opened);
  if (damage.empty()) return kExitFine;
  console->Complain(damage);
  return kExitDamaged;
}

absl::StatusOr<std::string> ReadablePath(const std::string& place) {
  GPUMEM_ASSIGN_OR_RETURN(const std::string found, FindTrace(place));
  const absl::StatusOr<ReadableTrace> readable = MakeReadable(found);
  if (!readable.ok()) return AsReadError(readable.status());
  return readable->path;
}

class PacketText {
 public:
  PacketText(const PacketTextRequest& request, const PacketTextOutput& out) : request_(request), out_(out) {}

  absl::StatusOr<int> Packets(const std::string& path, Console* console) {
    absl::StatusOr<PacketReader> reader = PacketReader::Open(path);
    if (!reader.ok()) return Finish(reader.status(), "", console);
    RawPacket packet;
    uint64_t unreadable = 0;
    bool ended = false;
    while (!Full() && !out_.failed() && reader->Next(&packet) == PacketReader::Outcome::kPacket) {
      if (packet.type == PacketType::kHeader || packet.type == PacketType::kEnd)
        ended = packet.type == PacketType::kEnd;
      if (IsWrapper(packet)) continue;
      unreadable += TypeName(packet.type) != "unknown" && ParseBody(packet) == nullptr ? 1 : 0;
      Add(packet);
    }
    Flush(0);
    if (unreadable != 0 && reader->damage().empty()) {
      return Finish(absl::OkStatus(),
                    absl::StrCat("the content of ", FormatCountOf(unreadable, "packet is", "packets is"), " broken"),
                    console);
    }
    const bool whole = reader->damage().empty() || reader->cut_short();
    if (whole && !ended && !Full() && !out_.failed()) {
      const Recovery recovery = RecoverFromRing(path);
      Recovered(recovery, reader->file_bytes(), console);
      if (recovery.read_ring || recovery.process == ProcessState::kRunning) return kExitFine;
    }
    return Finish(absl::OkStatus(), reader->damage(), console);
  }

  absl::StatusOr<int> Events(const std::string& path, Console* console) {
    absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
    if (!reader.ok()) return Finish(reader.status(), "", console);
    std::optional<uint64_t> origin;
    for (ItemType type = reader->Next(); type != ItemType::kEndOfStream && !Full() && !out_.failed();
         type = reader->Next()) {
      if (type != ItemType::kEvents) continue;
      for (size_t i = 0; i < reader->batch().count() && !Full(); ++i) {
        const EventRow row = reader->batch().Row(i);
        if (!origin) origin = row.time_ns;
        const uint64_t since = row.time_ns > *origin ? row.time_ns - *origin : 0;
        if (!Wanted(row, since)) continue;
        ++count_;
        request_.json ? AppendEventJson(row, since, reader->stacks(), &text_)
                      : AppendEventText(row, since, reader->stacks(), &text_);
        Flush(kFlushBytes);
      }
    }
    Flush(0);
    return Finish(absl::OkStatus(), reader->damage(), console);
  }

 private:
  bool Full() const { return request_.limit != 0 && count_ >= request_.limit; }

  void Flush(size_t above) {
    if (text_.size() <= above) return;
    out_.sink(text_);
    text_.clear();
  }

  void Add(const RawPacket& packet) {
    ++count_;
    request_.json ? AppendPacketJson(packet, &text_) : AppendPacketText(packet, &text_);
    Flush(kFlushBytes);
  }

  // What lies in the ring of a killed process, as packets that the file might hold.
  void Recovered(const Recovery& recovery, uint64_t offset, Console* console) {
    if (!recovery.note.empty()) console->Complain(recovery.note);
    if (!recovery.packets.empty() && !request_.json)
      absl::StrAppend(&text_, "# ", recovery.events,
                      " events recovered from the ring of the killed process: ", EscapeControls(recovery.ring_path),
                      "\n\n");
    RawPacket packet;
    packet.file_offset = offset;
    packet.sequence = recovery.next_sequence;
    for (const RecoveredPacket& recovered : recovery.packets) {
      if (Full()) break;
      packet.type = recovered.type;
      packet.body = recovered.body;
      Add(packet);
      ++packet.sequence;
    }
    Flush(0);
  }

  bool Wanted(const EventRow& row, uint64_t since) const {
    const AnalyzeOptions& filter = request_.filter;
    return (filter.device < 0 || row.device == filter.device) && since >= filter.from_ns && since <= filter.to_ns &&
           (filter.layer == LayerFilter::kAll || static_cast<uint8_t>(row.layer) == static_cast<uint8_t>(filter.layer));
  }

  const PacketTextRequest& request_;
  const PacketTextOutput& out_;
  std::string text_;
  uint64_t count_ = 0;  // packets or events
};

}  // namespace

absl::StatusOr<int> WritePackets(const PacketTextRequest& request, const PacketTextOutput& out, Console* console) {
  GPUMEM_ASSIGN_OR_RETURN(const std::string path, ReadablePath(request.place));
  return PacketText(request, out).Packets(path, console);
}

absl::StatusOr<int> WriteEventLines(const PacketTextRequest& request, const PacketTextOutput& out, Console* console) {
  GPUMEM_ASSIGN_OR_RETURN(const std::string path, ReadablePath(request.place));
  return PacketText(request, out).Events(path, console);
}

}  // namespace gpumem

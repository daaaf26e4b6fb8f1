// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "crosscheck/evidence.h"

#include <algorithm>
#include <unordered_map>

#include "trace/event_batch.h"
#include "trace/packet_reader.h"

namespace gpumem {
namespace {

// Of proto/gpumem/cupti.proto.
constexpr uint32_t kCuptiPacket = 12;

class Collector {
 public:
  explicit Collector(CrossEvidence* evidence) : evidence_(evidence) {}

  // False where the packet cannot be what it says.
  bool Take(const RawPacket& packet) {
    if (static_cast<uint32_t>(packet.type) == kCuptiPacket) return TakeCupti(packet.body);
    switch (packet.type) {
      case PacketType::kHeader:
        return TakeHeader(packet.body);
      case PacketType::kDefinitions:
        return TakeNames(packet.body);
      case PacketType::kEvents:
        return TakeEvents(packet.body);
      case PacketType::kLosses:
        return evidence_->losses.ParseFromArray(packet.body.data(), static_cast<int>(packet.body.size()));
      case PacketType::kEnd:
        evidence_->ended = true;
        return true;
      default:
        return true;
    }
  }

 private:
  bool TakeHeader(absl::string_view body) {
    trace::Header header;
    if (!header.ParseFromArray(body.data(), static_cast<int>(body.size()))) return false;
    evidence_->program = header.program();
    evidence_->pid = header.pid();
    return true;
  }

  bool TakeNames(absl::string_view body) {
    trace::Definitions definitions;
    if (!definitions.ParseFromArray(body.data(), static_cast<int>(body.size()))) return false;
    for (const trace::InternedString& string : definitions.strings()) names_[string.id()] = string.value();
    return true;
  }

  bool TakeCupti(absl::string_view body) {
    trace::Cupti cupti;
    if (!cupti.ParseFromArray(body.data(), static_cast<int>(body.size()))) return false;
    for (trace::CuptiRecord& record : *cupti.mutable_records()) evidence_->records.push_back(std::move(record));
    cupti.clear_records();
    const uint64_t complete_until_ns = std::max(cupti.complete_until_ns(), evidence_->cupti.complete_until_ns());
    evidence_->cupti = std::move(cupti);
    evidence_->cupti.set_complete_until_ns(complete_until_ns);
    evidence_->has_cupti = true;
    return true;
  }

  bool TakeEvents(absl::string_view body) {
    EventBatch batch;
    if (!batch.Decode(body).ok()) return false;
    for (size_t i = 0; i < batch.count(); ++i) TakeEvent(batch.Row(i));
    return true;
  }

  void TakeEvent(const EventRow& row) {
    const auto kind = static_cast<uint32_t>(row.kind);
    if (row.kind == trace::RECORDING_STOP) evidence_->pauses.push_back({row.time_ns, UINT64_MAX});
    if (row.kind == trace::RECORDING_START) {
      if (evidence_->pauses.empty()) evidence_->pauses.push_back({0, UINT64_MAX});
      evidence_->pauses.back().to_ns = row.time_ns;
    }
    if (row.kind == trace::DEVICE_RESET || row.kind == trace::CONTEXT_DESTROY || row.kind == trace::MODULE_UNLOAD)
      evidence_->ends_of_contexts.push_back(row.time_ns);
    if (row.kind == trace::FREE_FAILED) return TakeBack(row);
    if (IsMark(kind) || IsLabel(kind) || IsExisting(kind) || row.layer == trace::LAYER_UNSPECIFIED ||
        row.kind == trace::ALLOC_FAILED)
      return;
    OwnCall call;
    call.time_ns = row.time_ns;
    call.began_ns = row.time_ns - std::min<uint64_t>(row.time_ns, row.duration_ns);
    const bool pool = row.kind == trace::POOL_CREATE || row.kind == trace::POOL_DESTROY || row.kind == trace::POOL_TRIM;
    call.address = pool ? row.handle : row.address;
    call.bytes = pool ? 0 : row.size;
    call.kind = row.kind;
    call.layer = row.layer;
    call.memory = row.memory;
    call.thread = row.thread;
    const auto name = names_.find(row.api);
    call.api = name == names_.end() ? "not known" : name->second;
    evidence_->calls.push_back(std::move(call));
  }

  void TakeBack(const EventRow& row) {
    std::vector<OwnCall>& calls = evidence_->calls;
    for (auto at = calls.rbegin(); at != calls.rend(); ++at) {
      if (at->kind != trace::FREE || at->address != row.address || at->thread != row.thread) continue;
      calls.erase(std::next(at).base());
      return;
    }
  }

  CrossEvidence* evidence_;
  std::unordered_map<uint32_t, std::string> names_;
};

}  // namespace

absl::StatusOr<CrossEvidence> ReadCrossEvidence(const std::string& path) {
  absl::StatusOr<PacketReader> reader = PacketReader::Open(path);
  if (!reader.ok()) return reader.status();
  CrossEvidence evidence;
  evidence.path = path;
  Collector collector(&evidence);
  RawPacket packet;
  while (reader->Next(&packet) == PacketReader::Outcome::kPacket) {
    if (!collector.Take(packet)) reader->ReportDamage("a packet is not what it says");
  }
  evidence.damage = reader->damage();
  return evidence;
}

}  // namespace gpumem

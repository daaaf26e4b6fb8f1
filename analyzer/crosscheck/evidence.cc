// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "crosscheck/evidence.h"

#include <algorithm>
#include <unordered_map>

#include "trace/event_batch.h"
#include "trace/packet_reader.h"
#include "trace/ring_recovery.h"

namespace gpumem {
namespace {

// Of proto/gpumem/cupti.proto.
constexpr uint32_t kCuptiPacket = 12;

class Collector {
 public:
  explicit Collector(CrossEvidence* evidence) : evidence_(evidence) {}

  // False where the packet cannot be what it says.
  bool Take(PacketType type, absl::string_view body) {
    if (static_cast<uint32_t>(type) == kCuptiPacket) return TakeCupti(body);
    switch (type) {
      case PacketType::kHeader:
        return TakeHeader(body);
      case PacketType::kDefinitions:
        return TakeNames(body);
      case PacketType::kEvents:
        return TakeEvents(body);
      case PacketType::kLosses:
        return evidence_->losses.ParseFromArray(body.data(), static_cast<int>(body.size()));
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
    call.kind = row.kind;
    call.address = call.pool() ? row.handle : row.address;
    call.bytes = call.pool() ? 0 : row.size;
    call.layer = row.layer;
    call.memory = row.memory;
    call.thread = row.thread;
    if (row.layer != trace::TORCH && call.address != 0) NoteOrigin(&call);
    const auto name = names_.find(row.api);
    call.api = name == names_.end() ? "not known" : name->second;
    evidence_->calls.push_back(std::move(call));
  }

  // CUDA's own addresses: what one call made, another one may release under any name.
  void NoteOrigin(OwnCall* call) {
    if (call->kind != trace::FREE) {
      if (!call->pool()) origins_[call->address] = call->kind;
      return;
    }
    const auto origin = origins_.find(call->address);
    if (origin == origins_.end()) return;
    call->made_by = origin->second;
    origins_.erase(origin);
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
  std::unordered_map<uint64_t, trace::EventKind> origins_;
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
    if (!collector.Take(packet.type, packet.body)) reader->ReportDamage("a packet is not what it says");
  }
  const Recovery recovery = RecoverFromRing(path);
  for (const RecoveredPacket& rest : recovery.packets) collector.Take(rest.type, rest.body);
  if (recovery.packets.empty()) evidence.damage = reader->damage();
  return evidence;
}

}  // namespace gpumem

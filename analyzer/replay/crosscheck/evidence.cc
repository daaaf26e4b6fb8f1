// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/crosscheck/evidence.h"

#include <algorithm>
#include <unordered_map>

#include "trace/event_batch.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

class Collector {
 public:
  Collector(const TraceReader* reader, CrossEvidence* evidence) : reader_(reader), evidence_(evidence) {}

  void Take(ItemType type) {
    switch (type) {
      case ItemType::kEvents:
        for (size_t i = 0; i < reader_->batch().count(); ++i) TakeEvent(reader_->batch().Row(i));
        return;
      case ItemType::kLosses:
        evidence_->losses = reader_->losses();
        return;
      case ItemType::kCupti:
        return TakeCupti(reader_->cupti());
      case ItemType::kEnd:
        evidence_->ended = true;
        return;
      default:
        return;
    }
  }

 private:
  void TakeCupti(const trace::Cupti& cupti) {
    evidence_->records.insert(evidence_->records.end(), cupti.records().begin(), cupti.records().end());
    MergeCupti(cupti, &evidence_->cupti);
    evidence_->has_cupti = true;
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
    const std::string& name = reader_->stacks().string(row.api);
    call.api = name.empty() ? "not known" : name;
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

  const TraceReader* reader_;
  CrossEvidence* evidence_;
  std::unordered_map<uint64_t, trace::EventKind> origins_;
};

}  // namespace

void MergeCupti(const trace::Cupti& later, trace::Cupti* all) {
  const uint64_t complete_until_ns = std::max(later.complete_until_ns(), all->complete_until_ns());
  *all = later;
  all->clear_records();
  all->set_complete_until_ns(complete_until_ns);
}

absl::StatusOr<CrossEvidence> ReadCrossEvidence(const std::string& path) {
  absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
  // What the file is cannot be the fault of the command line.
  if (absl::IsInvalidArgument(reader.status())) return absl::DataLossError(reader.status().message());
  if (!reader.ok()) return reader.status();
  if (reader->Next() != ItemType::kHeader) return absl::DataLossError(path + ": " + reader->damage());
  CrossEvidence evidence;
  evidence.path = path;
  evidence.program = reader->header().program();
  evidence.pid = reader->header().pid();
  Collector collector(&*reader, &evidence);
  for (ItemType type = reader->Next(); type != ItemType::kEndOfStream && type != ItemType::kHeader;
       type = reader->Next()) {
    collector.Take(type);
  }
  evidence.damage = reader->damage();
  return evidence;
}

}  // namespace gpumem

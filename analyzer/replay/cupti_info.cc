// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/cupti_info.h"

#include <algorithm>
#include <unordered_map>

#include "gpumem/trace.pb.h"
#include "replay/crosscheck/join.h"

namespace gpumem {
namespace {

// CUpti_ActivityMemoryKind.
enum MemoryKind : uint32_t { kDevice = 3, kArray = 4, kDeviceStatic = 6, kManagedStatic = 7 };

bool IsOnDevice(const trace::CuptiRecord& record) {
  return record.memory() == kDevice || record.memory() == kArray || record.memory() == kDeviceStatic;
}

// Whether one of the calls that the recorder measured was going on then.
bool WasMeasured(const std::vector<OwnCall>& calls, uint64_t time_ns) {
  return std::any_of(calls.begin(), calls.end(), [time_ns](const OwnCall& call) {
    const bool measures = call.kind == trace::MODULE_LOAD || call.kind == trace::CONTEXT_CREATE;
    return measures && call.bytes > 0 && call.began_ns <= time_ns && time_ns <= call.time_ns;
  });
}

std::vector<OwnCall> Measured(const std::vector<OwnCall>& calls) {
  std::vector<OwnCall> measured;
  for (const OwnCall& call : calls) {
    if (call.kind == trace::MODULE_LOAD || call.kind == trace::CONTEXT_CREATE) measured.push_back(call);
  }
  return measured;
}

}  // namespace

std::vector<CuptiBlock> BlocksOnlyCuptiSaw(const CrossEvidence& evidence) {
  std::vector<const trace::CuptiRecord*> records;
  for (const uint32_t index : Join(evidence).records_only_cupti) {
    const trace::CuptiRecord& record = evidence.records[index];
    if (!record.pool() && record.pool_address() == 0 && IsOnDevice(record)) records.push_back(&record);
  }
  std::stable_sort(records.begin(), records.end(), [](const auto* a, const auto* b) {
    return a->time_ns() < b->time_ns();  // buffers come out of order
  });
  const std::vector<OwnCall> measured = Measured(evidence.calls);
  std::vector<CuptiBlock> blocks;
  std::unordered_map<uint64_t, size_t> alive;  // address -> place in `blocks`
  for (const trace::CuptiRecord* record : records) {
    if (record->operation() == 1) {
      CuptiBlock& block = blocks.emplace_back();
      block.device = static_cast<int>(record->device());
      block.bytes = record->bytes();
      block.from_ns = record->time_ns();
      block.is_static = record->memory() == kDeviceStatic;
      block.in_measured_part = block.is_static && WasMeasured(measured, block.from_ns);
      alive[record->address()] = blocks.size() - 1;
    } else if (const auto at = alive.find(record->address()); at != alive.end()) {
      blocks[at->second].to_ns = record->time_ns();
      alive.erase(at);
    }
  }
  return blocks;
}

CuptiUse UseAt(const std::vector<CuptiBlock>& blocks, int device, uint64_t time_ns) {
  CuptiUse use;
  for (const CuptiBlock& block : blocks) {
    if (block.device != device || block.from_ns > time_ns || block.to_ns <= time_ns) continue;
    if (!block.is_static) {
      use.unseen_bytes += block.bytes;
      ++use.unseen_count;
    } else {
      (block.in_measured_part ? use.static_in_measured_bytes : use.static_bytes) += block.bytes;
    }
  }
  return use;
}

CuptiInfo ToInfo(const trace::Cupti& cupti) {
  CuptiInfo info;
  info.asked = true;
  info.state = cupti.state();
  info.library = cupti.library();
  info.version = cupti.version();
  info.error = cupti.error();
  info.began_ns = cupti.began_ns();
  info.complete_until_ns = cupti.complete_until_ns();
  info.dropped_records = cupti.dropped_records();
  info.lost_records = cupti.lost_records();
  info.unknown_records = cupti.unknown_records();
  return info;
}

}  // namespace gpumem

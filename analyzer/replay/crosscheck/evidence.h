// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What one process's trace holds for the comparison with CUPTI: the recorder's events and CUPTI's records, in the order
// of the file, and behind them what waits in the ring of a process that was killed. Labels, marks and failed requests
// are left out, and so is a free that its own thread took back.
//
// Thread-safety: pure. Failure: as TraceReader::Open; what damage took is known by `damage`. Of a file with several
// processes the first one's.
//
//   absl::StatusOr<CrossEvidence> evidence = ReadCrossEvidence("run.gmtrace");

#ifndef GPUMEM_ANALYZER_REPLAY_CROSSCHECK_EVIDENCE_H_
#define GPUMEM_ANALYZER_REPLAY_CROSSCHECK_EVIDENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gpumem/trace.pb.h"

namespace gpumem {

struct OwnCall {
  uint64_t time_ns = 0;
  uint64_t began_ns = 0;  // of the call, where its duration is known
  uint64_t address = 0;   // of pools: the handle
  uint64_t bytes = 0;
  trace::EventKind kind = trace::EVENT_KIND_UNSPECIFIED;
  trace::Layer layer = trace::LAYER_UNSPECIFIED;
  trace::Memory memory = trace::DEVICE;
  uint32_t thread = 0;
  trace::EventKind made_by = trace::EVENT_KIND_UNSPECIFIED;  // of a free: what made the memory, where that is known
  std::string api;

  bool pool() const { return kind == trace::POOL_CREATE || kind == trace::POOL_DESTROY || kind == trace::POOL_TRIM; }
};

struct CrossEvidence {
  std::string path;
  std::string program;
  uint32_t pid = 0;
  std::vector<OwnCall> calls;
  bool has_cupti = false;
  trace::Cupti cupti;                       // as of the last packet, without records
  std::vector<trace::CuptiRecord> records;  // all of them
  trace::Losses losses;
  std::vector<uint64_t> ends_of_contexts;  // times of events that free memory without a free of their own
  struct Pause {
    uint64_t from_ns, to_ns;
  };
  std::vector<Pause> pauses;  // recording was off
  bool ended = false;
  std::string damage;
};

// Adds what a later packet says of CUPTI, without its records.
void MergeCupti(const trace::Cupti& later, trace::Cupti* all);

absl::StatusOr<CrossEvidence> ReadCrossEvidence(const std::string& path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_CROSSCHECK_EVIDENCE_H_

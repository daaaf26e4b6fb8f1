// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a trace says of CUPTI beside the recorder (GPUMEMSHIM_CUPTI=1): whether it watched, and the memory that only it
// saw. Plain values.

#ifndef GPUMEM_ANALYZER_REPLAY_CUPTI_INFO_H_
#define GPUMEM_ANALYZER_REPLAY_CUPTI_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gpumem {

// Memory of devices that CUPTI saw and no event of the recorder states: static variables of loaded code, which no call
// allocates, and what calls past the recorder allocated. Memory out of pools is left out: the pool's own number has it.
//
// Thread-safety: pure.
//
//   const std::vector<CuptiBlock> blocks = BlocksOnlyCuptiSaw(evidence);
//   const CuptiUse use = UseAt(blocks, device, time_ns);

struct CrossEvidence;

struct CuptiBlock {
  int device = 0;
  uint64_t bytes = 0;
  uint64_t from_ns = 0;
  uint64_t to_ns = UINT64_MAX;  // of its release
  bool is_static = false;
  // Made while the recorder measured by how much a context or a module lowered the device's free memory: it is in that.
  bool in_measured_part = false;
};

// What of it is alive at a time.
struct CuptiUse {
  uint64_t static_bytes = 0;                    // static variables, beside the parts that were measured
  uint64_t static_in_measured_bytes = 0;        // and within them
  uint64_t unseen_bytes = 0, unseen_count = 0;  // of calls past the recorder
};

std::vector<CuptiBlock> BlocksOnlyCuptiSaw(const CrossEvidence& evidence);

CuptiUse UseAt(const std::vector<CuptiBlock>& blocks, int device, uint64_t time_ns);

namespace trace {
enum CuptiState : int;
class Cupti;
}  // namespace trace

struct CuptiInfo {
  bool asked = false;         // a packet says something of it
  trace::CuptiState state{};  // CUPTI_STATE_UNSPECIFIED
  std::string library;
  uint32_t version = 0;
  int error = 0;                   // CUptiResult
  uint64_t began_ns = 0;           // 0: it never recorded
  uint64_t complete_until_ns = 0;  // it delivered all records of calls before
  uint64_t records = 0;
  uint64_t dropped_records = 0, lost_records = 0, unknown_records = 0;
  std::vector<CuptiBlock> only_cupti;  // by the time of allocation
  bool compared = false;               // `only_cupti` is known

  // Whether it knows what was allocated on a device at this time, since it began.
  bool KnowsAt(uint64_t time_ns) const {
    return compared && time_ns <= complete_until_ns && dropped_records + lost_records == 0;
  }
};

CuptiInfo ToInfo(const trace::Cupti& cupti);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_CUPTI_INFO_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Memory of devices that CUPTI saw and no event of the recorder states: static variables of loaded code, which no call
// allocates, and what calls past the recorder allocated. Memory out of pools is left out: the pool's own number has it.
//
// Thread-safety: pure.
//
//   const std::vector<CuptiBlock> blocks = BlocksOnlyCuptiSaw(evidence);
//   const CuptiUse use = UseAt(blocks, device, time_ns);

#ifndef GPUMEM_ANALYZER_REPLAY_CROSSCHECK_ONLY_CUPTI_H_
#define GPUMEM_ANALYZER_REPLAY_CROSSCHECK_ONLY_CUPTI_H_

#include <cstdint>
#include <vector>

namespace gpumem {

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

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_CROSSCHECK_ONLY_CUPTI_H_

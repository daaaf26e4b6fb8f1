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

#include "replay/crosscheck/only_cupti.h"

namespace gpumem {
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

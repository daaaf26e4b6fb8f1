// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// TraceGap: packets that are missing from a damaged file, in one place. A value.

#ifndef GPUMEM_ANALYZER_TRACE_TRACE_GAP_H_
#define GPUMEM_ANALYZER_TRACE_TRACE_GAP_H_

#include <cstdint>

namespace gpumem {

struct TraceGap {
  uint64_t packets = 0;
  bool events_known = false;  // how many were in them
  uint64_t events = 0;
  uint64_t from_ns = 0, to_ns = 0;  // of the events around it; 0 = there is none on that side

  bool MayHoldEvents() const { return !events_known || events != 0; }
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_TRACE_GAP_H_

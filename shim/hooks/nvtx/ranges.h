// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NVTX's ranges and marks as ours: a pushed range is a stage of its thread, a started one a range of the process.
//
// Thread-safety: any thread. Failure: what cannot be recorded is not, and the caller never notices.

#ifndef GPUMEM_SHIM_HOOKS_NVTX_RANGES_H_
#define GPUMEM_SHIM_HOOKS_NVTX_RANGES_H_

#include <cstdint>

#include "shim/control/marks.h"
#include "shim/hooks/nvtx/messages.h"

namespace gpumemshim::nvtx {

inline void Say(EventKind kind, const Message& message, uint64_t number = 0) {
  control::RecordMark({.kind = kind, .text = message.text, .size = message.size, .number = number});
}

inline void Pop() { control::RecordMark({.kind = EventKind::kRangePop}); }

inline void End(uint64_t number) { control::RecordMark({.kind = EventKind::kRangeEnd, .number = number}); }

// Numbers of ranges that nobody else has numbered: with the highest bit set, which other tools' numbers do not reach.
uint64_t NextRange();
inline bool IsOwnRange(uint64_t number) { return number >> 63 != 0; }

}  // namespace gpumemshim::nvtx

#endif  // GPUMEM_SHIM_HOOKS_NVTX_RANGES_H_

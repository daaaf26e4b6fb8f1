// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the program says about itself: marks, stages, steps, tags, names of memory. They come through gpumemshim.h, NVTX
// and `gpumemshim ctl` and become events like any other, so that their order among allocations is right.
//
// While recording is off, stages, the step and the tag are kept up to date aside (open_ranges.h), and a recording that
// begins receives what is open.
//
// Thread-safety: any thread, any time; lock-free while recording. Failure: false, and nothing is said.
//
//   RecordMark({.kind = EventKind::kRangePush, .text = "forward", .size = 7});

#ifndef GPUMEM_SHIM_CONTROL_MARKS_H_
#define GPUMEM_SHIM_CONTROL_MARKS_H_

#include <cstddef>
#include <cstdint>

#include "shim/base/api.h"
#include "shim/base/event.h"

namespace gpumemshim::control {

struct Mark {
  EventKind kind;
  const char* text = nullptr;  // UTF-8, no terminator needed
  size_t size = 0;             // cut at ring::kMaxTextBytes
  uint64_t number = 0;         // of a step or a range; of a mark: 1 = a snapshot
  uint32_t tid = 0;            // 0 = the calling thread
  ApiId api = ApiId::kNone;
};

// Leaves the mark in the ring, or, while recording is off, takes note of what it changes. errno stays.
bool RecordMark(const Mark& mark);

// The memory at an address bears a name. Nothing while recording is off, as of all memory. errno stays.
void RecordName(uint64_t address, uint64_t bytes, const char* text, size_t size);

// How many callbacks of the forecast failed, by the marks that say so.
uint64_t FailedCallbacks();
// In a forked child.
void ForgetFailedCallbacks();

// When recording begins, after the ring was started anew (texts sent before are not in it) or resumed.
void ForgetSentTexts();
void RecordOpenRanges();

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_MARKS_H_

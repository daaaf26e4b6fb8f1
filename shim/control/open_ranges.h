// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What marks changed while recording is off: for each thread how many stages that were open before have ended, and
// which have begun since; the step; the tags. In the order in which they happened a recording that begins later gets
// them told.
//
// A fixed table behind a flag that is held for a copy of some bytes. Thread-safety: any thread; in a forked child the
// table begins empty. Failure: with the table full (kMaxNotes), or the flag not to be had, later changes are lost.
//
//   NoteMark({.kind = EventKind::kRangePush, .text = "load", .size = 4}, tid);
//   TakeNotes([](const Mark& mark) { ... });   // and the table is empty

#ifndef GPUMEM_SHIM_CONTROL_OPEN_RANGES_H_
#define GPUMEM_SHIM_CONTROL_OPEN_RANGES_H_

#include <cstdint>

#include "shim/control/marks.h"

namespace gpumemshim::control {

inline constexpr uint32_t kMaxNotes = 256;
inline constexpr uint32_t kMaxNoteBytes = 96;  // of a text; the rest is cut

void NoteMark(const Mark& mark, uint32_t tid);

void TakeNotes(void (*tell)(const Mark& mark));

void ForgetNotes();

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_OPEN_RANGES_H_

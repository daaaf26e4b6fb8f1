// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Ground: what a trace, or what was imported, can know at all. Who says that something did not happen, or was highest,
// asks first whether it would have been seen: one moment has no peak, a history that lost its beginning has no sum, and
// a profile says nothing of requests that failed. Pure.
//
//   const Ground ground = GroundOf(analysis);
//   if (!ground.has_history()) return "not known: this file is of one moment";

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_GROUND_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_GROUND_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "replay/analysis.h"

namespace gpumem {

// What of a run it is about: no event and no memory; what was there at one moment; a part of a run, or one whose
// beginning is not there; all of it, from the first use of the GPU on.
enum class Covers : uint8_t { kNothing, kMoment, kWindow, kRun };

struct Ground {
  Covers covers = Covers::kRun;
  bool has_times = true;     // false: times only keep the order
  bool has_stacks = true;    // false: nobody recorded any
  bool has_totals = true;    // segments, or a total that somebody stated
  bool has_segments = true;  // false: nobody recorded where what is reserved lies, so nothing is known of free ranges
  bool has_failures = true;  // a request that failed would be in it
  bool has_lives = true;     // false: which block a free was of is made up, so that totals are right
  bool is_complete = true;   // false: events are missing, or its end is
  bool knows_end = true;     // false: the program's teardown is in it, and nothing says where its own code ended

  bool has_history() const { return covers >= Covers::kWindow; }
};

Ground GroundOf(const Analysis& analysis);

// "nothing", "moment", "window", "run".
absl::string_view CoversName(Covers covers);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_GROUND_H_

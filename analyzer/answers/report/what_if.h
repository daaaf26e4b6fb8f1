// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// WhatIfAnswer: what PyTorch's own allocator does with the recorded requests under another setting, found by running it
// (gpumemshim replay) and not by a model of it; or why that was not done. Plain values; the commands that print it get
// it from whoever can run it (cli/look/what_if.h).
//
//   if (answer.is_replayed()) page->Line(answer.other.settings);

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_WHAT_IF_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_WHAT_IF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpumem {

// What the program would do otherwise, with the recorded settings.
enum class ProgramChange : uint8_t {
  kNone,
  kOneStream,     // takes a stream once where it took one after another (StreamChain)
  kOnePool,       // captures all its CUDA graphs into one private pool
  kLargestFirst,  // captures CUDA graphs that share a pool in the order of what they need, the largest first
};

struct WhatIfRun {
  std::string settings;  // PYTORCH_CUDA_ALLOC_CONF; "" = PyTorch's defaults
  uint64_t peak_reserved = 0;
  // The largest request that is served in place of the one that failed; none where none was asked about, or where the
  // replay did not come so far.
  std::optional<uint64_t> fit;
  ProgramChange change = ProgramChange::kNone;
  std::string why_not = {};  // why this one is not known; its numbers are 0 then. Only `other` may have it

  // As a user sets it: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "PyTorch's defaults".
  std::string Title() const { return settings.empty() ? "PyTorch's defaults" : "PYTORCH_CUDA_ALLOC_CONF=" + settings; }
};

struct WhatIfAnswer {
  std::string why_not;  // why nothing was replayed; "" = it was
  std::string torch;    // version of the PyTorch that replayed
  int device = 0;
  bool is_exact = false;            // the recorded settings, replayed, gave the recorded segments
  std::string not_followed;         // what the program did that a replay cannot follow: a number would hold by chance
  std::vector<std::string> doubts;  // where it is not: why, as far as that is known
  WhatIfRun recorded, other;        // the recorded settings; with expandable segments, or without where they were on
  std::vector<WhatIfRun> changes;   // of the program, those that may help

  bool is_replayed() const { return why_not.empty(); }
  // nullptr where it was not tried, or did not get to the end.
  const WhatIfRun* Changed(ProgramChange change) const {
    for (const WhatIfRun& run : changes) {
      if (run.change == change) return &run;
    }
    return nullptr;
  }
  // What is said of the failed request rests on a replay, not on an estimate; and on one that is exact.
  bool knows_fit() const { return is_replayed() && other.fit.has_value(); }
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_WHAT_IF_H_

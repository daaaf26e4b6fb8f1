// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// How `report`, `oom`, `fragmentation` and `explain` ask what other settings of PyTorch's allocator would have done,
// without knowing who finds that out: the program that has both (gpumem/) names a WhatIfAsker before any command runs.
//
//   SetWhatIfAsker(ReplayWhatIf);
//   what_if.AddFlag(flags);                              // --no-replay
//   const std::optional<WhatIfAnswer> answer = what_if.Ask(arguments, {{}, device, failure}, console);
//
// Not thread-safe. Failure: an answer that says why there is none.

#ifndef GPUMEM_ANALYZER_CLI_LOOK_WHAT_IF_H_
#define GPUMEM_ANALYZER_CLI_LOOK_WHAT_IF_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "answers/report/what_if.h"
#include "base/console.h"
#include "cli/flags.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

struct WhatIfQuestion {
  LoadRequest trace;
  int device = 0;
  const OomEvent* failure = nullptr;  // up to which it is replayed; null: to the end
};
using WhatIfAsker = std::function<WhatIfAnswer(const WhatIfQuestion&, Console*)>;

void SetWhatIfAsker(WhatIfAsker asker);

// The request that `oom` explains, where its replay tells what would have fit; else null.
const OomEvent* ReplayableFailure(const Analysis& analysis);
// What `answer` says of that request goes into the analysis, in place of the estimate.
void TakeFit(const OomEvent& failure, WhatIfAnswer* answer, Analysis* analysis);

class WhatIfFlag {
 public:
  void AddFlag(Flags* flags) {
    flags->Add("--no-replay", &skips_, "estimate: do not run the requests through an installed PyTorch's allocator");
  }
  // Of the whole trace that `arguments` name, whatever part of it is shown: `question.trace` is set here. Nothing where
  // the user wants none, or there is nobody to ask. Ends the line of progress.
  std::optional<WhatIfAnswer> Ask(const std::vector<std::string>& arguments, WhatIfQuestion question,
                                  Console* console) const;
  // The same of the device that the verdict is about, where it is worth a replay (IsWorthReplay) of at most
  // `most_events` events; kept for the next command. The answer goes into `loaded`'s input, which `answer` outlives.
  void AskOfRun(const std::vector<std::string>& arguments, uint64_t most_events, LoadedTrace* loaded,
                std::optional<WhatIfAnswer>* answer, Console* console) const;

 private:
  bool skips_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_LOOK_WHAT_IF_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What grows from iteration to iteration in a loaded trace: leaks/ asked with the trace's names, the user's
// suppressions, and the source files, as far as they are the ones that ran.
//
//   GPUMEM_ASSIGN_OR_RETURN(const auto findings, LoadLeaks("known.supp", loaded.get()));
//
// Not thread-safe.

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_LEAKS_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_LEAKS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ledger/leaks/leak_finder.h"
#include "ledger/leaks/suppressions.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

// A LeakFinder of a loaded trace, for RunAnalyses.
class LoadedLeakFinder {
 public:
  // `suppressions_file`: "" = none. InvalidArgument where it cannot be read or understood.
  static absl::StatusOr<std::unique_ptr<LoadedLeakFinder>> Make(const std::string& suppressions_file,
                                                                LoadedTrace* loaded);
  // The same, whatever is kept.
  static absl::StatusOr<std::unique_ptr<LoadedLeakFinder>> MakeReplaying(const std::string& suppressions_file,
                                                                         LoadedTrace* loaded);
  // Null where no replay is needed, since the answer was kept (saved_answers.h).
  TwoPassAnalysis* analysis() { return finder_ ? &*finder_ : nullptr; }
  // After the replays. Sets loaded->input.leaks to the result, which must stay where it is.
  std::unique_ptr<LeakFindings> Take(LoadedTrace* loaded);

 private:
  Suppressions suppressions_;
  std::optional<LeakFinder> finder_;
  std::unique_ptr<LeakFindings> kept_;
};

// All of this in one call; any other code than InvalidArgument where the trace cannot be read again.
absl::StatusOr<std::unique_ptr<LeakFindings>> LoadLeaks(const std::string& suppressions_file, LoadedTrace* loaded);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_LEAKS_H_

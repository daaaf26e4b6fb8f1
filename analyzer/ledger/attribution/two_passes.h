// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RunTwoPasses: analyses that replay a trace twice, since the second replay needs what the first one found. Those that
// want the same replays share them: a replay costs more than what most visitors do in it. Not thread-safe.
//
//   Attributor attributor(analysis, &stacks, resolve, &rules, request);
//   LeakFinder finder(analysis, &stacks, resolve, place_of, request);
//   GPUMEM_RETURN_IF_ERROR(RunTwoPasses(analysis.path, stacks.objects(), {&attributor, &finder}));
//   attributor.Take();

#ifndef GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_TWO_PASSES_H_
#define GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_TWO_PASSES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "replay/analysis.h"
#include "trace/object_table.h"

namespace gpumem {

class LabelReplay;
class LabelVisitor;

class TwoPassAnalysis {
 public:
  virtual ~TwoPassAnalysis() = default;

  // Events later than this are not wanted in the first replay. Those that agree share it.
  virtual uint64_t FirstEnd() const = 0;
  // The replays outlive the visitors' use. Visitors belong to the analysis.
  virtual LabelVisitor* BeginFirst(const LabelReplay& replay) = 0;
  virtual void EndFirst(const LabelReplay& replay) = 0;
  // After EndFirst. The second replay goes on to the latest of what its analyses name.
  virtual uint64_t SecondEnd() const = 0;
  // Null: no second replay is needed.
  virtual LabelVisitor* BeginSecond(const LabelReplay& replay) = 0;
  virtual void EndSecond() = 0;  // where BeginSecond wanted one
};

// Where a replay ends that asks what was kept to the end: at the end of the program's own code, whatever its teardown
// frees.
inline uint64_t EndOfProgram(const Analysis& analysis) {
  return analysis.program_end_ns == 0 ? analysis.end_ns : analysis.program_end_ns;
}

// One replay for a visitor alone, up to `end_ns`. Fails where the trace cannot be read again.
absl::Status RunOnePass(const std::string& path, const ObjectTable& objects, uint64_t end_ns,
                        const std::function<LabelVisitor*(const LabelReplay&)>& begin);

// The same for analyses.
absl::Status RunTwoPasses(const std::string& path, const ObjectTable& objects,
                          const std::vector<TwoPassAnalysis*>& analyses);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_ATTRIBUTION_TWO_PASSES_H_

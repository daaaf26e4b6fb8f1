// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Looks: one run for each state that a bisect asks about, on simulated CUDA (or the machine's GPU), kept in a folder,
// so that a bisect that was ended goes on where it stopped.
//
//   Looks looks(base, tools, "allocated", RunPool::Start::kFresh, GPUMEM_VERSION, &journal, console);
//   GPUMEM_ASSIGN_OR_RETURN(const SweepRow row, looks.Take("tree 3f2c", "3f2c1ab", prepare));
//
// Thread-safety: none. Failure: Cancelled after a signal; a state that cannot be had or does not run has a row that
// says so.

#ifndef GPUMEM_PLANNER_BISECT_LOOKS_H_
#define GPUMEM_PLANNER_BISECT_LOOKS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "planner/launch/run_pool.h"
#include "planner/sweep/journal.h"
#include "planner/sweep/row.h"

namespace gpumem::plan {

class Looks {
 public:
  // `measure`: "allocated", "reserved" or "process": which of its peaks.
  // `version`: of gpumemshim and of the script; another one looks again.
  Looks(RunRequest base, SimulationTools tools, std::string measure, RunPool::Start start, const std::string& version,
        SweepJournal* journal, Console* console);

  // `identity`: what decides, beside the base run. `prepare` changes the base run into this one.
  absl::StatusOr<SweepRow> Take(const std::string& identity, const std::string& name,
                                const std::function<absl::Status(RunRequest*)>& prepare);

  // Bytes of the same with other values where nobody computes them (RunRequest::Values::kOther).
  absl::StatusOr<std::optional<uint64_t>> WithOtherValues(const std::string& identity,
                                                          const std::function<absl::Status(RunRequest*)>& prepare);

  // Of a row; nullopt: it does not run.
  std::optional<uint64_t> BytesOf(const SweepRow& row) const;
  size_t runs() const { return runs_; }  // made now; others were kept

 private:
  absl::StatusOr<SweepRow> Run(const std::string& name, RunRequest run);
  absl::Status KeepTrace(const std::string& name, const std::string& trace, SweepRow* row);

  const RunRequest base_;
  const std::string measure_, identity_;
  SweepJournal* const journal_;
  Console* const console_;
  RunPool pool_;
  size_t runs_ = 0;
};

// Why two runs differ: the sentence of `gpumemshim diff`, and what it doubts. "" where a trace cannot be read.
struct StepCause {
  std::string headline, kind;
  std::vector<std::string> doubts;
};
StepCause CauseBetween(const std::string& before_trace, const std::string& after_trace);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_BISECT_LOOKS_H_

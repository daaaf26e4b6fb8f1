// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SweepJournal: what a sweep has done so far, in its results directory: a file for each configuration, written in one
// go when its run is over. A sweep that was killed and starts again finds them; one that runs at the same time is kept
// out.
//
//   absl::StatusOr<SweepJournal> journal = SweepJournal::Open("sweep_results");
//   std::optional<SweepRow> row = journal->Find(identity);
//   journal->Keep(identity, row);
//
// An identity is all that decides about a run's answer: command, environment, device, steps, the script's own time. Two
// with the same text are the same configuration. Not thread-safe. Failure: Unavailable where files cannot be written or
// another sweep works there; a row that somebody damaged counts as not there.

#ifndef GPUMEM_PLANNER_SWEEP_JOURNAL_H_
#define GPUMEM_PLANNER_SWEEP_JOURNAL_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/sweep/row.h"

namespace gpumem::plan {

class SweepJournal {
 public:
  // Makes the directory where it is not there.
  static absl::StatusOr<SweepJournal> Open(const std::string& directory);
  ~SweepJournal();
  SweepJournal(SweepJournal&& other) noexcept;
  SweepJournal(const SweepJournal&) = delete;
  SweepJournal& operator=(const SweepJournal&) = delete;

  std::optional<SweepRow> Find(const std::string& identity) const;
  absl::Status Keep(const std::string& identity, const SweepRow& row);

  // An empty folder for the runs of this sweep; what an earlier one left in it is gone. It goes with the journal.
  const std::string& working_folder() const { return working_; }
  const std::string& directory() const { return directory_; }

 private:
  SweepJournal(std::string directory, int lock);

  std::string PathOf(const std::string& identity) const;

  std::string directory_, working_;
  int lock_;
};

// "batch_size-8_seq_len-512": of a configuration, for file names.
std::string FileNameOf(const Configuration& values);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_JOURNAL_H_

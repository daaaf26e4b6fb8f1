// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The files of a sweep in its results directory, under the names that people's scripts know (docs/commands/sweep.md has
// them all): two JSON files, a CSV file, and the pictures. Each appears whole or not at all, in place of the one of an
// earlier time.
//
//   GPUMEM_ASSIGN_OR_RETURN(const WrittenResults written, WriteResults(answer, "memory_results"));
//   answer.files = written.files;
//   answer.notes.insert(answer.notes.end(), written.notes.begin(), written.notes.end());

#ifndef GPUMEM_PLANNER_SWEEP_RESULTS_H_
#define GPUMEM_PLANNER_SWEEP_RESULTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/sweep/answer.h"

namespace gpumem::plan {

struct WrittenResults {
  std::vector<std::string> files;  // names within the directory
  std::vector<std::string> notes;  // what is other than expected
};

// Makes the directory where it is missing. `directory`, `files` and `notes` of the answer need not be set: those in the
// JSON file are these and what is found here. Pictures of configurations that this sweep has not are removed. Fails
// where a file cannot be written.
absl::StatusOr<WrittenResults> WriteResults(const SweepAnswer& answer, const std::string& directory);

// memory_profile_summary.csv: RFC 4180, a heading and one record a configuration.
std::string SummaryCsv(const SweepAnswer& answer);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_RESULTS_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SweepAnswer: all that is said of a sweep, as plain values. commands/ fills it in; the files of results.h, the page
// and the JSON answer are made of it alone.
//
//   SweepAnswer answer;
//   answer.command = {"python", "train.py", "--batch-size", "{batch_size}"};
//   answer.rows = ...;
//   answer.scaling = FitScaling(answer.rows);
//   WrittenResults written = WriteResults(answer, "memory_results");
//   answer.files = written.files;
//   SweepDocument(answer)

#ifndef GPUMEM_PLANNER_SWEEP_ANSWER_H_
#define GPUMEM_PLANNER_SWEEP_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "planner/sweep/row.h"
#include "planner/sweep/scaling.h"

namespace gpumem::plan {

struct SweepAnswer {
  std::vector<std::string> command;  // as it was given, secrets masked: everything below is shown and written to files
  std::string device;                // "H100 80GB"
  uint64_t capacity = 0;             // bytes of its memory, as a program sees it; 0 = not known
  bool simulated = true;             // false: the programs ran on a GPU
  double margin = 0;                 // the share of the device that the largest that fits leaves free
  std::string steps;                 // how far each run went: "5", "stable", "all"
  std::string version;               // of gpumemshim
  uint64_t started_realtime_ns = 0;  // since 1970; 0 = not known
  double seconds = 0;                // of the whole sweep
  int left = 0;                      // configurations that did not run yet, or were left out
  std::vector<SweepRow> rows;        // in order of their numbers
  std::vector<AxisScaling> scaling;  // FitScaling(rows)
  std::string directory;             // of the results; "" where none were written
  std::vector<std::string> files;    // within it
  std::vector<std::string> notes;    // sentences: what the numbers rest on, what could not be done
  SweepLanguage language = SweepLanguage::kEnglish;
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_ANSWER_H_

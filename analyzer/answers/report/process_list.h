// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The processes of one folder of traces: who started whom, how much GPU memory each had, how each ended.
//
// A trace's parent is the nearest of its process's ancestors that has a trace too; processes between them, which never
// used CUDA, need none. A trace whose process is the same as another's is what that process became by an exec.
//
//   std::vector<ListedProcess> processes = ...;   // one a trace, in any order
//   LinkProcesses(&processes);
//   ProcessListAnswer(processes, "runs")
//
// Pure. Failure: what cannot be linked stands by itself.

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_PROCESS_LIST_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_PROCESS_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "render/document.h"
#include "replay/analysis.h"

namespace gpumem {

struct ListedProcess {
  std::string path;  // of the trace
  ProcessInfo process;
  uint64_t start_realtime_ns = 0;  // of the recording
  uint64_t events = 0, lost = 0;
  uint64_t peak_bytes = 0, end_bytes = 0;  // CUDA's, of the device whose peak is highest
  PeakBound bound = PeakBound::kExact;     // of peak_bytes
  int device = -1;                         // that one; -1 = no GPU memory
  bool complete = false;
  bool end_unknown = false;
  Analysis::Process state = Analysis::Process::kUnknown;
  std::string damage;

  // Set by LinkProcesses.
  int parent = -1;  // index
  int depth = 0;    // of the tree
  // exec put another program in its place, which has a trace of its own; nothing killed it.
  bool replaced = false;
};

ListedProcess Listed(const Analysis& analysis);

// Finds parents and puts the list in the order of the tree: a parent before its children, siblings by rank, then by
// start.
void LinkProcesses(std::vector<ListedProcess>* processes);

// `processes` outlive it.
Document ProcessListAnswer(const std::vector<ListedProcess>& processes, absl::string_view folder);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_PROCESS_LIST_H_

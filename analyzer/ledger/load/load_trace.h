// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LoadTrace: from a trace file to everything that can be asked about it: the analysis, its stacks, the names of their
// frames, and the input of every report. No terminal and no flags here: front ends turn theirs into a LoadRequest and
// print what comes back.
//
//   LoadRequest request;
//   request.place = "runs/";
//   GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedTrace> loaded, LoadTrace(request));
//   const Verdict verdict = MakeVerdict(loaded->input);
//
// Not thread-safe. Errors: InvalidArgument where the request makes no sense, any other code where the trace cannot be
// read. A damaged trace is not an error: see LoadedTrace::is_damaged.

#ifndef GPUMEM_ANALYZER_LEDGER_LOAD_LOAD_TRACE_H_
#define GPUMEM_ANALYZER_LEDGER_LOAD_LOAD_TRACE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/attribution/two_passes.h"
#include "ledger/load/input.h"
#include "replay/analysis.h"
#include "replay/analyze.h"
#include "symbols/symbolizer.h"
#include "trace/stack_table.h"

namespace gpumem {

// What is being done, how much of it is done, and of how much; all == done once it is over.
using LoadProgress = std::function<void(const std::string& what, uint64_t done, uint64_t all)>;

struct LoadRequest {
  std::string place;          // a file, or a folder whose newest trace is meant; "" = the working directory
  AnalyzeOptions analyze;     // which device, layer and time
  SymbolizerOptions symbols;  // its working_directory is taken from the trace
  std::string sources;        // a folder with the program's source files, where the trace is not the user's own
  bool resolves_stacks = true;
  bool keeps_answers = true;  // what replays of a large trace tell is kept and read again (saved_answers.h)
  FurtherLook look;           // Analyze's
  bool spares_look = false;   // `look` is not needed where answers are kept (AnswersOf)
  LoadProgress progress;
};

class SavedAnswers;

struct LoadedTrace {
  std::string file;  // the file that the user named, or found; differs from `analysis.path` for imports
  Analysis analysis;
  StackTable stacks;
  std::unique_ptr<Symbolizer> symbolizer;
  std::unique_ptr<StackSource> source;
  ReportInput input;
  std::string sources;  // LoadRequest's
  // Of whole traces that have ended and are large: what replays tell is kept for the next command (saved_answers.h).
  bool keeps_answers = false;
  std::shared_ptr<const SavedAnswers> answers;  // once something asked for them

  // Answers are of what could be read.
  bool is_damaged() const { return !analysis.damage.empty(); }
  // What the symbolizer could not find; empty before its stacks are resolved.
  const std::vector<std::string>& symbol_notes() const { return symbolizer->notes(); }
};

// The same message, but never InvalidArgument: readers say that of bytes that are no trace, which is no mistake in how
// something was asked for.
absl::Status AsReadError(const absl::Status& status);

// Never null.
absl::StatusOr<std::unique_ptr<LoadedTrace>> LoadTrace(const LoadRequest& request);

// Replays the trace for analyses, which share their replays where they can; errors as AsReadError has them. Null ones
// need none.
absl::Status RunAnalyses(const LoadedTrace& loaded, const std::vector<TwoPassAnalysis*>& analyses);

// Names of the trace's frames; valid while `loaded` is.
FrameResolver ResolverOf(LoadedTrace* loaded);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LOAD_LOAD_TRACE_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Analyze: a trace file in, an Analysis out. The one entry point of replay/ for report/ and commands/.
//
// The first section (process) of the file is analyzed; further ones are named in the notes. Errors: NotFound,
// PermissionDenied, InvalidArgument, Unimplemented mean that the file cannot be read at all (exit code 3; the message
// is ready for the user). A damaged file is answered up to the damage: OK with Analysis::damage set (exit code 4).
//
//   StackTable stacks;
//   GPUMEM_ASSIGN_OR_RETURN(Analysis analysis, Analyze(path, options, &stacks));
//   Symbolizer symbolizer(&stacks);

#ifndef GPUMEM_ANALYZER_REPLAY_ANALYZE_H_
#define GPUMEM_ANALYZER_REPLAY_ANALYZE_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "replay/analysis.h"
#include "trace/file_window.h"
#include "trace/stack_table.h"

namespace gpumem {

class Checkpoints;
class TraceReader;

// What a further look at the events of the analyzed section needs, while the file is open. Seek the reader to a
// checkpoint's place first; it may stand anywhere afterwards.
struct OpenTrace {
  TraceReader* reader = nullptr;
  const Checkpoints* checkpoints = nullptr;  // empty where there is no event
  const StackTable* names = nullptr;
  const Analysis* analysis = nullptr;
};
using FurtherLook = std::function<void(const OpenTrace&)>;

// `stacks`, where not null, receives what the stack ids of the Analysis mean. `look` is called once, where not null and
// the file can be read, when everything else is known.
absl::StatusOr<Analysis> Analyze(absl::string_view path, const AnalyzeOptions& options = {},
                                 StackTable* stacks = nullptr, const ProgressCallback& progress = nullptr,
                                 const FurtherLook& look = nullptr);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_ANALYZE_H_

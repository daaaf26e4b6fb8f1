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
#include "trace/stack_table.h"

namespace gpumem {

// Called now and then from the analyzing thread: bytes of the file done, of all.
using ProgressCallback = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

// `stacks`, where not null, receives what the stack ids of the Analysis mean.
absl::StatusOr<Analysis> Analyze(absl::string_view path, const AnalyzeOptions& options = {},
                                 StackTable* stacks = nullptr, const ProgressCallback& progress = nullptr);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_ANALYZE_H_

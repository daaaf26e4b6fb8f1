// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FILE.symbolized.gmtrace: a trace with functions, source lines and inlined functions of its native frames, so that
// every command gives the same answers on a machine without the binaries (symbolized_copy.h). What a killed program
// left in its ring is included.
//
//   return WriteNamedTraces({.places = {"run.gmtrace"}}, console);
//
// Failure: InvalidArgument where the request makes no sense. What cannot be read or written is complained about, and
// the exit code is kExitCannotRead, or kExitDamaged where a copy has the damage of its trace.

#ifndef GPUMEM_ANALYZER_CLI_FILES_NAMED_TRACE_H_
#define GPUMEM_ANALYZER_CLI_FILES_NAMED_TRACE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "cli/symbol_flags.h"

namespace gpumem {

struct NameRequest {
  std::vector<std::string> places;  // none = the newest trace here
  std::string output;               // "" = beside each
  bool in_place = false;            // replaces the trace itself, whole
  bool json = false;                // tells what was found, for machines
  SymbolFlags symbols;
};

absl::StatusOr<int> WriteNamedTraces(const NameRequest& request, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_FILES_NAMED_TRACE_H_

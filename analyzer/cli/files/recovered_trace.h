// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FILE.recovered.gmtrace: a trace, followed by the last events that a killed program left in its ring; it no longer
// needs the ring. A ring without a trace becomes a trace of its own.
//
//   return WriteRecoveredTraces({.places = {"run.gmtrace"}, .deletes_ring = true}, console);
//
// Failure: InvalidArgument where the request makes no sense. What cannot be read or written is complained about, and
// the exit code is kExitCannotRead.

#ifndef GPUMEM_ANALYZER_CLI_FILES_RECOVERED_TRACE_H_
#define GPUMEM_ANALYZER_CLI_FILES_RECOVERED_TRACE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/console.h"

namespace gpumem {

struct RecoverRequest {
  std::vector<std::string> places;  // traces and rings; none = the newest trace here
  std::string output;               // "" = beside each
  bool in_place = false;            // appends to the trace itself
  bool deletes_ring = false;        // when its events are written
};

absl::StatusOr<int> WriteRecoveredTraces(const RecoverRequest& request, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_FILES_RECOVERED_TRACE_H_

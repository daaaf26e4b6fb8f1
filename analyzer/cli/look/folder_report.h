// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// `gpumemshim report DIR` where DIR holds the traces of several processes: which they are, who started whom, which had
// the most memory.
//
//   if (const auto traces = TracesOfFolder(argument); traces.size() > 1) return ReportFolder(...);

#ifndef GPUMEM_ANALYZER_CLI_LOOK_FOLDER_REPORT_H_
#define GPUMEM_ANALYZER_CLI_LOOK_FOLDER_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "cli/trace_options.h"

namespace gpumem {

// Reads them all, one after the other. Returns the exit code; a trace that cannot be read is complained about and left
// out, and so are rings without a trace, with what to do about them.
absl::StatusOr<int> ReportFolder(const std::string& folder, const std::vector<std::string>& traces,
                                 const TraceOptions& options, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_LOOK_FOLDER_REPORT_H_

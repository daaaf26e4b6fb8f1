// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// WriteViewFile: where pages and pictures of a trace go: to the file that -o names, else beside the file that was read:
// "run.gmtrace" -> "run.html", "snapshot.pickle" -> "snapshot.html". Never over what was read.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::string path, WriteViewFile(output_, ".html", page, {loaded.get()}));

#ifndef GPUMEM_ANALYZER_CLI_LOOK_VIEW_FILE_H_
#define GPUMEM_ANALYZER_CLI_LOOK_VIEW_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ledger/load/load_trace.h"

namespace gpumem {

// `asked`, or where it is "" the first trace's file with `ending` in the place of its own.
std::string ViewPath(const std::string& asked, absl::string_view ending, const LoadedTrace& first);

// InvalidArgument where that is a file that was read, under whatever name.
absl::Status CheckViewPath(const std::string& path, const std::vector<const LoadedTrace*>& read);

// Both, then the bytes, with the mode of what was read. Returns the path.
absl::StatusOr<std::string> WriteViewFile(const std::string& asked, absl::string_view ending, absl::string_view bytes,
                                          const std::vector<const LoadedTrace*>& read);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_LOOK_VIEW_FILE_H_

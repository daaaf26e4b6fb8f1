// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/look/view_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "ledger/load/example_traces.h"

namespace gpumem {

std::string ViewPath(const std::string& asked, absl::string_view ending, const LoadedTrace& first) {
  if (!asked.empty()) return asked;
  const bool is_import = first.file != first.analysis.path;
  const std::string beside = BesideTrace(first.file);
  const std::filesystem::path file = beside;
  return absl::StrCat(is_import ? (file.parent_path() / file.stem()).string() : absl::StripSuffix(beside, ".gmtrace"),
                      ending);
}

absl::Status CheckViewPath(const std::string& path, const std::vector<const LoadedTrace*>& read) {
  for (const LoadedTrace* const each : read) {
    for (const std::string& file : {each->file, each->analysis.path}) {
      std::error_code ignored;
      if (std::filesystem::equivalent(path, file, ignored))
        return absl::InvalidArgumentError(absl::StrCat(path, " is the trace itself. Name another file with -o."));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> WriteViewFile(const std::string& asked, absl::string_view ending, absl::string_view bytes,
                                          const std::vector<const LoadedTrace*>& read) {
  const std::string path = ViewPath(asked, ending, *read.front());
  GPUMEM_RETURN_IF_ERROR(CheckViewPath(path, read));
  GPUMEM_RETURN_IF_ERROR(WriteOutput(path, bytes, {.is_named = !asked.empty(), .like = read.front()->analysis.path}));
  return path;
}

}  // namespace gpumem

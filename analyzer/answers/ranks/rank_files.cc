// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/rank_files.h"

#include <glob.h>

#include <filesystem>
#include <set>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "answers/ranks/summary_file.h"
#include "base/status_macros.h"
#include "ledger/load/find_traces.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

// Traces, and summaries of ranks that kept none.
std::vector<std::string> TracesAndSummaries(const std::string& folder) {
  std::vector<std::string> files = TracesOfFolder(folder);
  std::set<std::string> known;
  for (const std::string& trace : files) known.insert(SummaryPathOf(trace));
  for (const std::string& summary : FilesOfFolder(folder, kSummarySuffix)) {
    // Beside traces there may also be files of all ranks' summaries.
    const bool is_one_ranks = absl::EndsWith(summary, absl::StrCat(".gmtrace", kSummarySuffix));
    if (known.empty() || (is_one_ranks && !known.contains(summary))) files.push_back(summary);
  }
  return files;
}

std::vector<std::string> OfFolder(const std::string& folder) {
  std::vector<std::string> files = TracesAndSummaries(folder);
  if (!files.empty()) return files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::vector<std::string> below = TracesAndSummaries(entry->path().string());
    files.insert(files.end(), below.begin(), below.end());
  }
  return files;
}

std::vector<std::string> OfPattern(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return files;
}

absl::Status AddFiles(const std::string& argument, std::set<std::string>* files) {
  std::error_code error;
  const std::string place = argument.empty() ? "." : argument;
  const bool is_name = fs::exists(place, error);
  for (const std::string& each : is_name ? std::vector<std::string>{place} : OfPattern(place)) {
    const std::vector<std::string> found =
        fs::is_directory(each, error) ? OfFolder(each) : std::vector<std::string>{each};
    files->insert(found.begin(), found.end());
    if (!found.empty() || !is_name) continue;
    return absl::NotFoundError(
        absl::StrCat("no *.gmtrace in ", argument.empty() ? "the working directory" : argument,
                     " or its folders. Record all ranks with: gpumemshim run -o runs/ -- torchrun ..."));
  }
  if (!is_name && OfPattern(place).empty())
    return absl::NotFoundError(absl::StrCat("cannot open ", argument, ": no such file, folder or pattern"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> RankFiles(const std::vector<std::string>& arguments) {
  std::set<std::string> files;
  if (arguments.empty()) GPUMEM_RETURN_IF_ERROR(AddFiles("", &files));
  for (const std::string& argument : arguments) GPUMEM_RETURN_IF_ERROR(AddFiles(argument, &files));
  if (files.empty()) return absl::NotFoundError("no trace there");
  return std::vector<std::string>(files.begin(), files.end());
}

}  // namespace gpumem

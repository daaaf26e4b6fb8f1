// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/ranks/rank_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "answers/ranks/summary_file.h"
#include "base/status_macros.h"
#include "ledger/load/find_traces.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 2;  // folders in folders: "iteration_10/rank0/snapshot.pickle"

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

// "iteration_10", "step-20", "epoch3": 10, 20, 3; -1 = another name. Snapshots that a job wrote again and again lie so.
int IterationOf(const std::string& folder) {
  const std::string name = absl::AsciiStrToLower(fs::path(folder).filename().string());
  for (const absl::string_view lead : {"iteration", "iter", "global_step", "step", "epoch"}) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, lead)) continue;
    if (!absl::ConsumePrefix(&rest, "_")) absl::ConsumePrefix(&rest, "-");
    int number = -1;
    if (absl::SimpleAtoi(rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size())), &number))
      return number;
  }
  return -1;
}

// Folders below, in order; of those that are named after iterations the last one alone.
std::vector<std::string> FoldersOf(const std::string& folder) {
  std::vector<std::string> folders;
  std::error_code error;
  for (fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) folders.push_back(entry->path().string());
  }
  std::sort(folders.begin(), folders.end(), [](const std::string& a, const std::string& b) {
    return std::pair(IterationOf(a), a) < std::pair(IterationOf(b), b);
  });
  if (!folders.empty() && IterationOf(folders.back()) >= 0)
    std::erase_if(folders,
                  [last = folders.back()](const std::string& each) { return IterationOf(each) >= 0 && each != last; });
  return folders;
}

std::vector<std::string> OfFolder(const std::string& folder, int depth = 0) {
  std::vector<std::string> files = TracesAndSummaries(folder);
  if (!files.empty() || depth == kDeepest) return files;
  for (const std::string& each : FoldersOf(folder)) {
    const std::vector<std::string> below = OfFolder(each, depth + 1);
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

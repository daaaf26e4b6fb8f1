// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/process_result.h"

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file_output.h"
#include "base/format.h"
#include "base/json_reader.h"
#include "base/status_macros.h"

namespace gpumem::plan {
namespace {

// " cuDNN (12 operations), cuFFT (1 operation) were measured on this GPU."
std::string Sentence(const std::vector<WorkspaceUse>& uses, uint64_t WorkspaceUse::*count, absl::string_view what) {
  std::vector<std::string> names;
  for (const WorkspaceUse& use : uses) {
    if (use.*count > 0)
      names.push_back(absl::StrCat(use.library, " (", FormatCountOf(use.*count, "operation", "operations"), ")"));
  }
  return names.empty() ? "" : absl::StrCat(" Those of ", absl::StrJoin(names, ", "), " ", what);
}

}  // namespace

std::vector<std::string> UnknownLibraries(const std::vector<WorkspaceUse>& uses) {
  std::vector<std::string> names;
  for (const WorkspaceUse& use : uses) {
    if (use.unknown > 0) names.push_back(use.library);
  }
  return names;
}

bool HasBounds(const std::vector<WorkspaceUse>& uses) {
  return std::any_of(uses.begin(), uses.end(), [](const WorkspaceUse& use) { return use.largest_bound > 0; });
}

std::string WorkspacesText(const std::vector<WorkspaceUse>& uses) {
  return absl::StrCat(
      Sentence(uses, &WorkspaceUse::measured, "are as measured on this GPU."),
      Sentence(uses, &WorkspaceUse::similar,
               "are as measured on another GPU of this capability, or with another version of the library."),
      Sentence(uses, &WorkspaceUse::lawful,
               "follow from rules that were found in sizes measured on a GPU of this capability (docs/workspaces.md)."),
      Sentence(uses, &WorkspaceUse::set, "are as SIMCUDA_CUDNN_WS and the like set them."),
      Sentence(uses, &WorkspaceUse::bounded, "count with the most that they can be (docs/workspaces.md)."),
      Sentence(uses, &WorkspaceUse::unknown, "are not measured for this GPU and count as 0."),
      Sentence(uses, &WorkspaceUse::without_bound, "have no bound that is known either."));
}

namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxBytes = 16 << 20;

// Files only, and none that is larger than they ever are: the folder is the program's to write into as well.
std::vector<fs::path> FilesEnding(const std::string& folder, const std::string& ending) {
  std::vector<fs::path> files;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ending) continue;
    if (entry->file_size(ignored) <= kMaxBytes) files.push_back(entry->path());  // what is not a file has none
  }
  std::sort(files.begin(), files.end());
  return files;
}

void ReadWorkspaces(JsonReader* reader, ProcessResult* result) {
  if (reader->HasValue("context")) {
    reader->Object("context", [&](JsonReader* context) {
      result->context.known = "nothing";
      context->ReadIfThere("bytes", &result->context.bytes);
      context->ReadIfThere("known", &result->context.known);
    });
  }
  if (!reader->Has("workspaces")) return;
  reader->EachMember("workspaces", [&](const std::string& library, JsonReader* asked) {
    WorkspaceUse& use = result->workspaces.emplace_back();
    use.library = library;
    asked->ReadIfThere("set", &use.set);
    asked->ReadIfThere("measured", &use.measured);
    asked->ReadIfThere("similar", &use.similar);
    asked->ReadIfThere("law", &use.lawful);
    asked->ReadIfThere("bound", &use.bounded);
    asked->ReadIfThere("nothing", &use.unknown);
    asked->ReadIfThere("without_bound", &use.without_bound);
    asked->ReadIfThere("largest", &use.largest);
    asked->ReadIfThere("largest_bound", &use.largest_bound);
  });
}

void ReadChanges(JsonReader* reader, ProcessResult* result) {
  if (!reader->Has("changes")) return;
  reader->Each("changes", [&](JsonReader* each) {
    ChangeReport& change = result->changes.emplace_back();
    each->ReadIfThere("name", &change.name);
    each->ReadIfThere("applied", &change.applied);
    each->ReadIfThere("of", &change.of);
    each->ReadIfThere("why", &change.why);
    each->ReadIfThere("other_results", &change.other_results);
    each->ReadIfThere("bytes", &change.moved);
    each->ReadIfThere("met", &change.met);
    std::pair<std::string, int64_t> batch;
    if (each->HasValue("batch")) each->Read("batch", &batch);
    std::tie(change.batch_flag, change.batch) = batch;
  });
}

// A line of faulthandler's: `  File "x.py", line 12 in main`.
std::string Place(absl::string_view line) {
  const size_t begin = line.find("File \"");
  const size_t end = begin == absl::string_view::npos ? begin : line.find("\", line ", begin + 6);
  if (end == absl::string_view::npos) return "";
  const absl::string_view file = line.substr(begin + 6, end - begin - 6);
  const absl::string_view rest = line.substr(end + 8);
  return absl::StrCat(file, ":", rest.substr(0, rest.find(' ')), rest.substr(std::min(rest.size(), rest.find(' '))));
}

}  // namespace

absl::StatusOr<ProcessResult> ParseProcessResult(absl::string_view text) {
  GPUMEM_ASSIGN_OR_RETURN(const nlohmann::json reported, ParseJson(text));
  JsonReader reader(reported);
  ProcessResult result;
  std::string reason;
  std::vector<uint64_t> highest;
  reader.ReadIfThere("pid", &result.pid);
  reader.ReadIfThere("rank", &result.rank);
  if (result.pid < 0 || result.rank < 0) reader.Fail("pid", "or rank is below 0");
  reader.ReadIfThere("reason", &reason);
  result.reason = reason == "stable"       ? ProcessResult::Reason::kStable
                  : reason == "steps"      ? ProcessResult::Reason::kSteps
                  : reason == "capability" ? ProcessResult::Reason::kCapability
                                           : ProcessResult::Reason::kEnded;
  reader.ReadIfThere("steps", &result.steps);
  reader.ReadIfThere("last_growth", &result.last_growth);
  reader.ReadIfThere("torch", &result.torch);
  reader.ReadIfThere("built_for", &result.built_for);
  reader.ReadIfThere("pinned", &result.pinned);
  reader.ReadIfThere("event_queries", &result.event_queries);
  reader.ReadIfThere("other_values", &result.other_values);
  reader.ReadIfThere("other_integers", &result.other_integers);
  reader.ReadIfThere("unknown_true", &result.unknown_true);
  reader.ReadIfThere("unknown_false", &result.unknown_false);
  reader.ReadIfThere("unknown_values", &result.unknown_values);
  reader.ReadIfThere("drawn_reads", &result.drawn_reads);
  reader.ReadIfThere("unknown_counts", &result.unknown_counts);
  reader.ReadIfThere("drawn_counts", &result.drawn_counts);
  reader.ReadIfThere("compared", &result.compared);
  reader.ReadIfThere("compared_open", &result.compared_open);
  reader.ReadIfThere("routed", &result.routed);
  reader.ReadIfThere("scaler_reads", &result.scaler_reads);
  reader.ReadIfThere("steps_differ", &result.steps_differ);
  reader.ReadIfThere("benchmark", &result.benchmark);
  reader.ReadIfThere("failed_at", &result.failed_at);
  reader.ReadIfThere("failed_by", &result.failed_by);
  reader.ReadIfThere("operator_refused", &result.operator_refused);
  reader.ReadIfThere("table_refused", &result.table_refused);
  reader.ReadIfThere("values_failed", &result.values_failed);
  ReadChanges(&reader, &result);
  reader.ReadIfThere("cuda_ns", &result.cuda_ns);
  reader.ReadIfThere("first_step_ns", &result.first_step_ns);
  reader.ReadIfThere("ended_ns", &result.ended_ns);
  reader.ReadIfThere("highest", &highest);
  if (!highest.empty()) result.allocated_in_steps = highest.front();
  if (highest.size() > 1) result.reserved_in_steps = highest[1];
  ReadWorkspaces(&reader, &result);
  if (!reader.ok()) return absl::DataLossError(reader.problem());
  return result;
}

std::vector<ProcessResult> ReadProcessResults(const std::string& folder) {
  std::vector<ProcessResult> results;
  for (const fs::path& path : FilesEnding(folder, ".json")) {
    const absl::StatusOr<std::string> text = ReadRegularFile(path.string(), kMaxBytes);
    // No JSON, or a field of another type: the program's own file.
    if (absl::StatusOr<ProcessResult> result = text.ok() ? ParseProcessResult(*text) : text.status(); result.ok())
      results.push_back(*std::move(result));
  }
  std::sort(results.begin(), results.end(), [](const ProcessResult& a, const ProcessResult& b) {
    return std::tie(a.rank, a.pid) < std::tie(b.rank, b.pid);
  });
  return results;
}

std::string ReadStuckStacks(const std::string& folder) {
  std::string stacks;
  for (const fs::path& path : FilesEnding(folder, ".stack"))
    absl::StrAppend(&stacks, ReadRegularFile(path.string(), kMaxBytes).value_or(""));
  return stacks;
}

std::string StuckAt(const std::string& stacks) {
  std::string innermost, own;
  bool in_main_thread = false;
  // faulthandler writes the thread that made the dump, or the main one, last.
  for (const absl::string_view line : absl::StrSplit(stacks, '\n')) {
    if (absl::StartsWith(line, "Thread ") || absl::StartsWith(line, "Current thread ")) {
      innermost.clear();
      own.clear();
      in_main_thread = true;
      continue;
    }
    const std::string place = in_main_thread ? Place(line) : "";
    if (place.empty()) continue;
    if (innermost.empty()) innermost = place;
    const bool is_library = absl::StrContains(line, "site-packages/") || absl::StrContains(line, "/lib/python") ||
                            absl::StrContains(line, "dist-packages/") || absl::StrContains(line, "File \"<");
    if (own.empty() && !is_library) own = place;
  }
  return own.empty() ? innermost : own;
}

}  // namespace gpumem::plan

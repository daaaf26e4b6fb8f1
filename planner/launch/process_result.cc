// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/process_result.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uintmax_t kMaxBytes = 16 << 20;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Files only, and none that is larger than they ever are: the folder is the program's to write into as well.
std::vector<fs::path> FilesEnding(const std::string& folder, const std::string& ending) {
  std::vector<fs::path> files;
  std::error_code error, ignored;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ending) continue;
    if (entry->file_size(ignored) <= kMaxBytes) files.push_back(entry->path());  // what is no file has none
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Throws where there is something else: a conversion would make another number of it.
template <typename Number>
Number Whole(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > std::numeric_limits<Number>::max())
    throw json::other_error::create(501, "no whole number", nullptr);
  return value.get<Number>();
}

template <typename Number>
void Read(const json& reported, const char* key, Number* number) {
  if (const auto found = reported.find(key); found != reported.end()) *number = Whole<Number>(*found);
}

void ReadWorkspaces(const json& reported, ProcessResult* result) {
  if (const auto context = reported.find("context"); context != reported.end() && context->is_object()) {
    Read(*context, "bytes", &result->context.bytes);
    result->context.known = context->value("known", "nothing");
  }
  for (const auto& [library, asked] : reported.value("workspaces", std::map<std::string, json>())) {
    WorkspaceUse use;
    use.library = library;
    Read(asked, "set", &use.set);
    Read(asked, "measured", &use.measured);
    Read(asked, "similar", &use.similar);
    Read(asked, "bound", &use.bounded);
    Read(asked, "nothing", &use.unknown);
    Read(asked, "without_bound", &use.without_bound);
    Read(asked, "largest", &use.largest);
    Read(asked, "largest_bound", &use.largest_bound);
    result->workspaces.push_back(use);
  }
}

void ReadChanges(const json& reported, ProcessResult* result) {
  for (const json& each : reported.value("changes", std::vector<json>())) {
    ChangeReport change;
    change.name = each.value("name", "");
    Read(each, "applied", &change.applied);
    Read(each, "of", &change.of);
    change.why = each.value("why", "");
    change.other_results = each.value("other_results", "");
    Read(each, "bytes", &change.moved);
    if (const auto batch = each.find("batch"); batch != each.end() && batch->is_array() && batch->size() == 2) {
      change.batch_flag = batch->at(0).get<std::string>();
      change.batch = Whole<int64_t>(batch->at(1));
    }
    result->changes.push_back(std::move(change));
  }
}

ProcessResult Parse(const std::string& text) {
  const json reported = json::parse(text);
  ProcessResult result;
  Read(reported, "pid", &result.pid);
  Read(reported, "rank", &result.rank);
  const std::string reason = reported.value("reason", "ended");
  result.reason = reason == "stable"       ? ProcessResult::Reason::kStable
                  : reason == "steps"      ? ProcessResult::Reason::kSteps
                  : reason == "capability" ? ProcessResult::Reason::kCapability
                                           : ProcessResult::Reason::kEnded;
  Read(reported, "steps", &result.steps);
  Read(reported, "last_growth", &result.last_growth);
  result.torch = reported.value("torch", "");
  result.built_for = reported.value("built_for", std::vector<std::string>());
  for (const auto& [pin, count] : reported.value("pinned", std::map<std::string, json>()))
    result.pinned[pin] = Whole<uint64_t>(count);
  Read(reported, "event_queries", &result.event_queries);
  Read(reported, "other_values", &result.other_values);
  Read(reported, "other_integers", &result.other_integers);
  Read(reported, "unknown_true", &result.unknown_true);
  Read(reported, "unknown_false", &result.unknown_false);
  result.values_failed = reported.value("values_failed", "");
  ReadChanges(reported, &result);
  Read(reported, "cuda_ns", &result.cuda_ns);
  Read(reported, "first_step_ns", &result.first_step_ns);
  Read(reported, "ended_ns", &result.ended_ns);
  if (const auto highest = reported.find("highest"); highest != reported.end() && !highest->empty())
    result.allocated_in_steps = Whole<uint64_t>(highest->at(0));
  ReadWorkspaces(reported, &result);
  return result;
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

std::vector<ProcessResult> ReadProcessResults(const std::string& folder) {
  std::vector<ProcessResult> results;
  for (const fs::path& path : FilesEnding(folder, ".json")) {
    try {
      results.push_back(Parse(ReadAll(path)));
    } catch (const json::exception&) {  // no JSON, or a field of another type: the program's own file
    }
  }
  std::sort(results.begin(), results.end(), [](const ProcessResult& a, const ProcessResult& b) {
    return std::tie(a.rank, a.pid) < std::tie(b.rank, b.pid);
  });
  return results;
}

std::string ReadStuckStacks(const std::string& folder) {
  std::string stacks;
  for (const fs::path& path : FilesEnding(folder, ".stack")) absl::StrAppend(&stacks, ReadAll(path));
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

}  // namespace gpumem

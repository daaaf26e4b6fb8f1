// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "plan/process_result.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> FilesEnding(const std::string& folder, const std::string& ending) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ending) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::optional<ProcessResult> Parse(const std::string& text) {
  const nlohmann::json told = nlohmann::json::parse(text, nullptr, false);
  if (!told.is_object()) return std::nullopt;
  ProcessResult result;
  result.pid = told.value("pid", 0);
  result.rank = told.value("rank", 0);
  const std::string reason = told.value("reason", "ended");
  result.reason = reason == "stable"       ? ProcessResult::Reason::kStable
                  : reason == "steps"      ? ProcessResult::Reason::kSteps
                  : reason == "capability" ? ProcessResult::Reason::kCapability
                                           : ProcessResult::Reason::kEnded;
  result.steps = told.value("steps", uint64_t{0});
  result.last_growth = told.value("last_growth", uint64_t{0});
  result.torch = told.value("torch", "");
  result.built_for = told.value("built_for", std::vector<std::string>());
  result.pinned = told.value("pinned", std::map<std::string, uint64_t>());
  result.checkpointed = told.value("checkpointing", uint64_t{0});
  return result;
}

// A line of faulthandler's: `  File "x.py", line 12 in main`.
std::string Place(absl::string_view line) {
  const size_t begin = line.find("File \""), end = line.find("\", line ");
  if (begin == absl::string_view::npos || end == absl::string_view::npos) return "";
  const absl::string_view file = line.substr(begin + 6, end - begin - 6);
  const absl::string_view rest = line.substr(end + 8);
  return absl::StrCat(file, ":", rest.substr(0, rest.find(' ')), rest.substr(std::min(rest.size(), rest.find(' '))));
}

}  // namespace

std::vector<ProcessResult> ReadProcessResults(const std::string& folder) {
  std::vector<ProcessResult> results;
  for (const fs::path& path : FilesEnding(folder, ".json")) {
    try {
      if (std::optional<ProcessResult> result = Parse(ReadAll(path))) results.push_back(*std::move(result));
    } catch (const nlohmann::json::exception&) {  // a field of another type: the program's own file
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

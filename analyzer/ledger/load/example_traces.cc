// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/example_traces.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

// Of an installed tree or of a clone; "" where there is neither.
std::string ExamplesFolder() {
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"../share/gpumemshim/examples", "../../../examples/traces"}) {
    const fs::path folder = (beside / place).lexically_normal();
    if (fs::is_directory(folder, error)) return folder.string();
  }
  return "";
}

}  // namespace

const std::vector<ExampleTrace>& ExampleTraces() {
  static const auto* const kTraces = new std::vector<ExampleTrace>{
      {"oom", "a training that doubles its batch until the GPU is full"},
      {"leak", "a training that keeps the graph of every step"},
      {"fragmentation", "a server whose every request is longer than all before"},
      {"ranks", "four ranks, of which the last gets the longest texts"},
      {"train", "a GPT's training with nothing wrong"},
  };
  return *kTraces;
}

absl::StatusOr<std::string> FindExample(absl::string_view name) {
  std::error_code error;
  const std::string folder = ExamplesFolder();
  const std::vector<ExampleTrace>& all = ExampleTraces();
  const absl::string_view example = name.substr(0, name.find('/'));
  const bool is_part = example != name;
  const bool is_known = std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.name == example; });
  if (!is_known || (is_part && !fs::exists(absl::StrCat(folder, "/", name, ".gmtrace"), error))) {
    std::string names;
    for (const ExampleTrace& each : all) absl::StrAppend(&names, names.empty() ? "" : "/", each.name);
    return absl::InvalidArgumentError(absl::StrCat("unknown example \"", name, "\" (one of ", names, ")"));
  }
  const std::string stem = absl::StrCat(folder, "/", name);
  for (const std::string& path : {absl::StrCat(stem, ".gmtrace"), stem}) {
    if (!folder.empty() && fs::exists(path, error)) return path;
  }
  return absl::NotFoundError(
      "the examples are not beside this program (../share/gpumemshim/examples): it was installed in part");
}

std::string TraceArgument(const std::string& path) {
  const std::string folder = ExamplesFolder() + "/";
  absl::string_view name = path;
  if (folder.size() == 1 || !absl::ConsumePrefix(&name, folder)) return ShellQuoted(path);
  absl::ConsumeSuffix(&name, ".gmtrace");
  return absl::StrCat("--example ", name);
}

std::string BesideTrace(const std::string& path) {
  const std::string folder = ExamplesFolder();
  return folder.empty() || !absl::StartsWith(path, folder + "/") ? path : fs::path(path).filename().string();
}

}  // namespace gpumem

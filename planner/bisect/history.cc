// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/bisect/history.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "attach/preload.h"
#include "base/process.h"
#include "base/status_macros.h"
#include "planner/launch/program.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

std::string LastLineOf(const std::string& text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  return lines.empty() ? "" : std::string(absl::StripAsciiWhitespace(lines.back()));
}

class FileHistory final : public History {
 public:
  FileHistory(std::vector<HistoryState> states, std::vector<std::string> command) : command_(std::move(command)) {
    states_ = std::move(states);
  }

  absl::Status Prepare(size_t index, RunRequest* run) override {
    run->command = command_;
    for (std::string& word : run->command) {
      if (const size_t at = word.find("{}"); at != std::string::npos) word.replace(at, 2, states_[index].name);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<std::string> command_;
};

}  // namespace

absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& command) {
  std::vector<std::string> words = {"/usr/bin/env"};
  words.insert(words.end(), command.begin(), command.end());
  ChildOutput child;
  GPUMEM_ASSIGN_OR_RETURN(ChildOutput::Result result, child.Run(words, size_t{64} << 20));
  if (SignalGuard::Noted() != 0) return absl::CancelledError("a signal came");
  if (result.exit_code != 0) {
    const std::string line = LastLineOf(result.errors.empty() ? result.output : result.errors);
    return absl::FailedPreconditionError(
        line.empty() ? absl::StrCat(command.front(), " ended with exit code ", result.exit_code) : line);
  }
  if (absl::EndsWith(result.output, "\n")) result.output.pop_back();
  return std::move(result.output);
}

std::string InterpreterOf(const std::vector<std::string>& command) {
  if (const std::optional<PythonCommand> python = ParsePythonCommand(command); python.has_value())
    return python->interpreter.front();
  std::ifstream file(command.empty() ? "" : FindProgram(command.front()));
  std::string line;
  if (file && std::getline(file, line) && absl::StartsWith(line, "#!")) {
    const std::vector<std::string> words = absl::StrSplit(line.substr(2), ' ', absl::SkipWhitespace());
    const bool is_env = words.size() > 1 && absl::EndsWith(words[0], "/env");
    const std::string named = is_env ? words[1] : words.empty() ? "" : words[0];
    if (absl::StartsWith(fs::path(named).filename().string(), "python")) return named;
  }
  return "python3";
}

std::string PathWithFirst(const std::string& name, const std::vector<std::string>& first) {
  const char* const before = std::getenv(name.c_str());
  const std::string rest = before == nullptr || *before == '\0' ? "" : absl::StrCat(":", before);
  return absl::StrCat(absl::StrJoin(first, ":"), rest);
}

absl::StatusOr<std::unique_ptr<History>> OpenFiles(const std::vector<std::string>& files,
                                                   const std::vector<std::string>& command) {
  const bool has_place = absl::StrContains(absl::StrJoin(command, "\n"), "{}");
  if (!has_place) {
    return absl::InvalidArgumentError(
        "the command has no {}, which is where the file goes, as in: gpumemshim bisect --files a.yaml b.yaml c.yaml -- "
        "python train.py --config {}");
  }
  std::vector<HistoryState> states;
  for (const std::string& file : files) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    if (error) return absl::NotFoundError(absl::StrCat("cannot read ", file, ": ", error.message()));
    const auto time = fs::last_write_time(file, error).time_since_epoch().count();
    states.push_back({file, absl::StrCat(file, " ", size, " ", time), "", "", ""});
  }
  return std::make_unique<FileHistory>(std::move(states), command);
}

}  // namespace gpumem::plan

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/python_command.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace gpumem::plan {
namespace {

// "python", "python3", "python3.11", "/x/bin/python3.11".
bool IsPython(const std::string& word) {
  const std::string name = std::filesystem::path(word).filename().string();
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, "python")) return false;
  return std::all_of(rest.begin(), rest.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == 't'; });
}

bool TakesValue(absl::string_view option) {
  return option == "-W" || option == "-X" || option == "--check-hash-based-pycs";
}

}  // namespace

std::optional<PythonCommand> ParsePythonCommand(const std::vector<std::string>& command) {
  if (command.empty() || !IsPython(command[0])) return std::nullopt;
  PythonCommand parsed;
  size_t i = 0;
  parsed.interpreter.push_back(command[i++]);
  for (; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (!absl::StartsWith(word, "-")) break;
    // Short options may be joined: -um. What follows an m is the module.
    const bool is_short = word.size() > 1 && word[1] != '-' && word[1] != 'W' && word[1] != 'X';
    const size_t run = is_short ? word.find_first_of("mc", 1) : std::string::npos;
    if (word == "-" || (run != std::string::npos && word[run] == 'c')) return std::nullopt;
    if (run != std::string::npos) {
      if (run > 1) parsed.interpreter.push_back(word.substr(0, run));
      const bool is_joined = run + 1 < word.size();
      if (!is_joined && i + 1 >= command.size()) return std::nullopt;
      parsed.module = is_joined ? word.substr(run + 1) : command[++i];
      parsed.arguments.assign(command.begin() + static_cast<std::ptrdiff_t>(i) + 1, command.end());
      return parsed;
    }
    parsed.interpreter.push_back(word);
    if (TakesValue(word) && i + 1 < command.size()) parsed.interpreter.push_back(command[++i]);
  }
  if (i >= command.size()) return std::nullopt;
  parsed.script = command[i];
  parsed.arguments.assign(command.begin() + static_cast<std::ptrdiff_t>(i) + 1, command.end());
  return parsed;
}

}  // namespace gpumem::plan

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ParsedCommand: a command with what stood after its name on the command line. CLI11, which parses, is
// parsed_command.cc's and flags.cc's alone (flags.h).
//
//   ParsedCommand parsed(command, arguments);
//   if (!parsed.problem().empty()) ...   a usage error
//   return parsed.Run(&console);
//
// One for each command: flags are parsed into the command itself, which must outlive it.

#ifndef GPUMEM_ANALYZER_CLI_PARSED_COMMAND_H_
#define GPUMEM_ANALYZER_CLI_PARSED_COMMAND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/console.h"
#include "cli/command.h"
#include "cli/flags.h"

namespace CLI {
class App;
}  // namespace CLI

namespace gpumem {

// How help shows a flag.
struct FlagLine {
  std::string names, value, meaning;  // "-o, --output", "FILE", ...
  std::string group;                  // its heading
};

class ParsedCommand {
 public:
  ParsedCommand(Command* command, const std::vector<std::string>& arguments);
  ~ParsedCommand();
  ParsedCommand(const ParsedCommand&) = delete;
  ParsedCommand& operator=(const ParsedCommand&) = delete;

  const Command& command() const { return *command_; }
  // What is wrong with the command line: "" = nothing.
  const std::string& problem() const { return problem_; }
  bool wants_help() const { return wants_help_; }
  // --example without a name: which there are.
  bool wants_examples() const { return wants_examples_; }
  // "en", "zh"; "" = as the environment says.
  const std::string& language() const { return language_; }
  bool Has(absl::string_view flag) const;
  // All that are not flags.
  const std::vector<std::string>& arguments() const { return arguments_; }
  std::vector<FlagLine> flags() const;

  // The exit code. Errors are printed.
  int Run(Console* console);

 private:
  void Parse(const std::vector<std::string>& arguments);
  void TakeExamples(std::vector<std::string>* words);
  void MoveExamplesBehindWords();
  std::string UnknownFlag(std::string text, const std::vector<std::string>& arguments) const;

  Command* const command_;
  std::unique_ptr<CLI::App> app_;
  Flags flags_;
  bool wants_help_ = false, wants_examples_ = false;
  std::string language_, example_, problem_;
  std::vector<std::string> arguments_;
  std::vector<std::string> examples_;  // files that --example named
};

// The candidate that a mistyped `word` most likely means, "" where none is near.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_PARSED_COMMAND_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/parsed_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ledger/load/example_traces.h"

namespace gpumem {
namespace {

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
      corner = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

struct Split {
  std::vector<std::string> flags, command_line;
  bool marked = false;  // by "--"
};

Split SplitAtMark(const std::vector<std::string>& arguments) {
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  Split split{{arguments.begin(), mark}, {}, mark != arguments.end()};
  if (split.marked) split.command_line.assign(mark + 1, arguments.end());
  return split;
}

bool LooksLikeFlag(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

// "-- a comment\nSELECT 1": no flag has a blank in its name, a query may begin with one.
bool IsComment(const std::string& word) {
  return absl::StartsWith(word, "--") && word.find_first_of(" \t\n") < word.find('=');
}

}  // namespace

ParsedCommand::ParsedCommand(Command* command, const std::vector<std::string>& arguments)
    : command_(command), app_(std::make_unique<CLI::App>()), flags_(app_.get()) {
  app_->set_help_flag("");
  command->AddFlags(&flags_);
  if (command->takes_traces()) {
    app_->add_option("--example", example_, "a trace that comes with gpumemshim; alone it lists them")
        ->group(Flags::kPlainGroup)
        ->type_name("NAME");
  }
  app_->add_option("--lang", language_, "language of what people read: en or zh (what LANG says)")
      ->group(Flags::kPlainGroup)
      ->type_name("LANG")
      ->check(CLI::IsMember({"en", "zh"}));
  app_->add_flag("-h,--help", wants_help_, "this text")->group(Flags::kPlainGroup);
  command->takes_command_line() ? app_->prefix_command() : app_->allow_extras();
  Parse(arguments);
}

ParsedCommand::~ParsedCommand() = default;

void ParsedCommand::Parse(const std::vector<std::string>& arguments) {
  Split split = SplitAtMark(arguments);
  std::vector<std::string> comments;
  if (!command_->takes_command_line()) {
    std::copy_if(split.flags.begin(), split.flags.end(), std::back_inserter(comments), IsComment);
    std::erase_if(split.flags, IsComment);
  }
  if (command_->takes_traces()) TakeExamples(&split.flags);
  try {
    std::vector<std::string> reversed(split.flags.rbegin(), split.flags.rend());  // CLI11 takes them from the back
    app_->parse(reversed);
  } catch (const CLI::ParseError& error) {
    problem_ = UnknownFlag(error.what(), split.flags);
    return;
  }
  if (wants_help_ || wants_examples_ || !problem_.empty()) return;
  const bool takes_command_line = command_->takes_command_line();
  std::vector<std::string>& rest = arguments_ = app_->remaining();
  for (const std::string& argument : rest) {
    if (LooksLikeFlag(argument)) problem_ = UnknownFlag("unknown flag " + argument, rest);
    if (!problem_.empty() || takes_command_line) break;  // after the first they are another program's
  }
  if (!problem_.empty()) return;
  rest.insert(rest.end(), comments.begin(), comments.end());
  if (split.marked && !rest.empty() && takes_command_line) {
    problem_ = absl::StrCat("unexpected argument ", rest.front(), " before --");
    return;
  }
  // Words after "--" that are no other program's are arguments, whatever they begin with.
  if (!command_->takes_marked_command_line())
    rest.insert(rest.end(), split.command_line.begin(), split.command_line.end());
  MoveExamplesBehindWords();
  const size_t most = command_->most_arguments();
  if (!takes_command_line && rest.size() > most) {
    const char* hint = most == 1 ? " (one trace at a time)" : "";
    problem_ = absl::StrCat("unexpected argument ", rest[most], hint);
    return;
  }
  if (split.marked && command_->takes_marked_command_line()) {
    rest.emplace_back("--");
    rest.insert(rest.end(), split.command_line.begin(), split.command_line.end());
  }
}

// In place of "--example oom" its file: of several traces the order tells which is which.
void ParsedCommand::TakeExamples(std::vector<std::string>* words) {
  constexpr absl::string_view kFlag = "--example";
  for (auto word = words->begin(); word != words->end(); ++word) {
    absl::string_view name = *word;
    if (!absl::ConsumePrefix(&name, kFlag) || (!name.empty() && name[0] != '=')) continue;
    if (absl::ConsumePrefix(&name, "=")) {
      *word = std::string(name);
    } else {
      word = words->erase(word);
      if (word == words->end() || LooksLikeFlag(*word)) {
        wants_examples_ = true;
        return;
      }
    }
    const absl::StatusOr<std::string> path = FindExample(*word);
    if (!path.ok()) {
      problem_ = std::string(path.status().message());
      return;
    }
    *word = *path;
    examples_.push_back(*path);
  }
}

// A flag may stand anywhere, but traces come after the words that say what is asked: `at --example oom step 3`. Before
// other traces it stays.
void ParsedCommand::MoveExamplesBehindWords() {
  const auto is_trace = [](const std::string& word) {
    std::error_code ignored;
    return std::filesystem::exists(word, ignored);
  };
  for (size_t i = arguments_.size(); i-- > 0;) {
    if (std::find(examples_.begin(), examples_.end(), arguments_[i]) == examples_.end()) continue;
    for (size_t at = i; at + 1 < arguments_.size() && !is_trace(arguments_[at + 1]); ++at)
      std::swap(arguments_[at], arguments_[at + 1]);
  }
}

// CLI11 ends its sentences in its own way; ours go on.
std::string ParsedCommand::UnknownFlag(std::string text, const std::vector<std::string>& arguments) const {
  while (!text.empty() && (text.back() == '.' || text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::vector<std::string> flags;
  for (const CLI::Option* option : app_->get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const std::string& argument : arguments) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (!absl::StartsWith(flag, "--") || std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
    const std::string near = Nearest(flag, flags);
    return absl::StrCat("unknown flag ", flag, near.empty() ? "" : absl::StrCat(" (did you mean ", near, "?)"));
  }
  return text;
}

bool ParsedCommand::Has(absl::string_view flag) const {
  const CLI::Option* const option = app_->get_option_no_throw(std::string(flag));
  return option != nullptr && option->count() > 0;
}

std::vector<FlagLine> ParsedCommand::flags() const {
  std::vector<FlagLine> lines;
  for (const CLI::Option* option : app_->get_options()) {
    std::string names = option->get_name(false, true);
    for (size_t at = names.find(','); at != std::string::npos; at = names.find(',', at + 2))
      names.insert(at + 1, 1, ' ');
    const std::string value = option->get_items_expected_max() > 0 ? option->get_type_name() : "";
    lines.push_back({names, value, option->get_description(), option->get_group()});
  }
  return lines;
}

int ParsedCommand::Run(Console* console) {
  const absl::StatusOr<int> code = command_->Run(arguments_, console);
  if (code.ok()) return *code;
  console->ProgressDone();
  if (!absl::IsCancelled(code.status())) console->Complain(code.status().message());
  return absl::IsInvalidArgument(code.status()) ? kExitUsage : kExitCannotRead;
}

std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t least = (word.size() <= 4 ? 1 : std::max<size_t>(2, word.size() / 3)) + 1;
  for (const std::string& candidate : candidates) {
    const bool begins = word.size() >= 3 && absl::StartsWith(candidate, word);
    const size_t distance = begins ? 0 : EditDistance(word, candidate);
    if (distance < least && distance < candidate.size()) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace gpumem

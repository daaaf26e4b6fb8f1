// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/dispatch.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "cli/flags.h"

namespace gpumem {
namespace {

constexpr absl::string_view kAbout = R"(gpumemshim: GPU memory profiler for PyTorch and CUDA

  gpumemshim run -- python train.py     record an unmodified program
  gpumemshim report                     the newest trace on one screen
  gpumemshim flame                      the call stacks behind the peak, as an HTML page
  gpumemshim leaks                      what grows, by line of code
  gpumemshim plan -- python train.py    predict the peak without a GPU
)";

constexpr absl::string_view kFlagsAndCodes = R"(
Flags:
  -h, --help     this text; gpumemshim COMMAND --help describes one command
  --version      the version

Exit codes: 0 fine, 1 a check failed, 2 usage error, 3 cannot read, 4 damaged or lossy, answered in part.
)";

const char* TitleOf(CommandGroup group) {
  switch (group) {
    case CommandGroup::kRecord:
      return "Record";
    case CommandGroup::kLook:
      return "Look";
    case CommandGroup::kTraining:
      return "Training";
    case CommandGroup::kCompare:
      return "Compare";
    case CommandGroup::kPredict:
      return "Predict";
    case CommandGroup::kLive:
      return "Live";
    case CommandGroup::kFiles:
      return "Files";
  }
  return "";
}

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

std::string Overview(const CommandList& commands) {
  std::string text(kAbout);
  std::string title;
  for (const auto& command : commands) {
    const std::string group = TitleOf(command->place().group);
    if (group != title) absl::StrAppend(&text, "\n", group, "\n");
    title = group;
    absl::StrAppend(&text, "  ", PadRight(command->name(), 15), command->summary(), "\n");
  }
  return absl::StrCat(text, kFlagsAndCodes);
}

std::string HelpOf(const Command& command, const CLI::App& app) {
  std::string text = absl::StrCat("Usage: gpumemshim ", command.name(), " ", command.arguments(), "\n\n",
                                  command.help(), "\nFlags:\n");
  for (const CLI::Option* option : app.get_options()) {
    std::string names = option->get_name(false, true);
    for (size_t at = names.find(','); at != std::string::npos; at = names.find(',', at + 2))
      names.insert(at + 1, 1, ' ');
    if (option->get_items_expected_max() > 0) absl::StrAppend(&names, " ", option->get_type_name());
    absl::StrAppend(&text, "  ", PadRight(names, 24), " ", option->get_description(), "\n");
  }
  return text;
}

int UsageError(const Command& command, absl::string_view problem, Console* console) {
  console->Complain(
      absl::StrCat(problem, ", in gpumemshim ", command.name(), ". See gpumemshim ", command.name(), " --help."));
  return kExitUsage;
}

// CLI11 ends its sentences in its own way; ours goes on behind them.
std::string Problem(std::string text, const CLI::App& app, const std::vector<std::string>& arguments) {
  while (!text.empty() && (text.back() == '.' || text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
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

int ParseAndRun(Command* command, const std::vector<std::string>& arguments, Console* console) {
  CLI::App app;
  app.set_help_flag("");
  bool help = false;
  Flags flags(&app);
  command->AddFlags(&flags);
  app.add_flag("-h,--help", help, "this text");
  const Split split = SplitAtMark(arguments);
  command->takes_command_line() ? app.prefix_command() : app.allow_extras();
  try {
    std::vector<std::string> reversed(split.flags.rbegin(), split.flags.rend());  // CLI11 takes them from the back
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return UsageError(*command, Problem(error.what(), app, split.flags), console);
  }
  if (help) {
    console->Print(HelpOf(*command, app));
    return kExitFine;
  }
  std::vector<std::string> rest = app.remaining();
  if (!rest.empty() && rest.front().size() > 1 && rest.front()[0] == '-') {
    return UsageError(*command, Problem("unknown flag " + rest.front(), app, rest), console);
  }
  if (split.marked && !rest.empty() && command->takes_command_line())
    return UsageError(*command, absl::StrCat("unexpected argument ", rest.front(), " before --"), console);
  for (const std::string& argument : rest) {
    if (!command->takes_command_line() && argument.size() > 1 && argument[0] == '-') {
      return UsageError(*command, Problem("unknown flag " + argument, app, rest), console);
    }
  }
  // Words after "--" that are no other program's are arguments, whatever they begin with.
  if (!command->takes_marked_command_line())
    rest.insert(rest.end(), split.command_line.begin(), split.command_line.end());
  if (!command->takes_command_line() && rest.size() > command->most_arguments()) {
    const char* hint = command->most_arguments() == 1 ? " (one trace at a time)" : "";
    return UsageError(*command, absl::StrCat("unexpected argument ", rest[command->most_arguments()], hint), console);
  }
  if (split.marked && command->takes_marked_command_line()) {
    rest.emplace_back("--");
    rest.insert(rest.end(), split.command_line.begin(), split.command_line.end());
  }
  const absl::StatusOr<int> code = command->Run(rest, console);
  if (code.ok()) return *code;
  console->ProgressDone();
  if (!absl::IsCancelled(code.status())) console->Complain(code.status().message());
  return absl::IsInvalidArgument(code.status()) ? kExitUsage : kExitCannotRead;
}

int UnknownCommand(const std::string& word, const CommandList& commands, Console* console) {
  if (absl::StartsWith(word, "-")) {
    console->Complain(absl::StrCat("unknown flag ", word, " before the command. See gpumemshim --help."));
    return kExitUsage;
  }
  std::vector<std::string> names;
  for (const auto& command : commands) names.emplace_back(command->name());
  const std::string near = Nearest(word, names);
  if (near.empty() &&
      (absl::EndsWith(word, ".gmtrace") || absl::EndsWith(word, ".pickle") || absl::StrContains(word, "/"))) {
    console->Complain(absl::StrCat("unknown command \"", word, "\". To read a trace: gpumemshim report ", word));
  } else {
    console->Complain(
        absl::StrCat("unknown command \"", word, "\". ",
                     near.empty() ? "See gpumemshim --help." : absl::StrCat("Did you mean gpumemshim ", near, "?")));
  }
  return kExitUsage;
}

}  // namespace

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

int Dispatch(const std::vector<std::string>& arguments, const CommandList& commands, Console* console) {
  if (arguments.empty()) {
    console->Complain("no command given. Here is what there is:");
    console->Print(Overview(commands));
    return kExitUsage;
  }
  const std::string& word = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (word == "-h" || word == "--help" || (word == "help" && rest.empty())) {
    console->Print(Overview(commands));
    return kExitFine;
  }
  if (word == "--version" || word == "version") {
    console->Print("gpumemshim " GPUMEM_VERSION "\n");
    return kExitFine;
  }
  const std::string& name = word == "help" ? rest.front() : word;
  const auto found =
      std::find_if(commands.begin(), commands.end(), [&](const auto& command) { return command->name() == name; });
  if (found == commands.end()) return UnknownCommand(name, commands, console);
  const int code = ParseAndRun(found->get(), word == "help" ? std::vector<std::string>{"--help"} : rest, console);
  return console->print_failed() && code == kExitFine ? static_cast<int>(kExitCannotRead) : code;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/dispatch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/utf8.h"
#include "cli/parsed_command.h"
#include "cli/report_sections.h"
#include "ledger/load/example_traces.h"
#include "render/page.h"

namespace gpumem {
namespace {

constexpr absl::string_view kAbout = R"(gpumemshim: GPU memory profiler for PyTorch and CUDA

  gpumemshim run -- python train.py     record an unmodified program
  gpumemshim report                     the newest trace on one screen
  gpumemshim report --example oom       of a trace that comes with it, to try
  gpumemshim leaks                      what grows, by line of code
  gpumemshim plan -- python train.py    predict the peak without a GPU

)";

constexpr absl::string_view kFlagsAndCodes = R"(Flags: -h, --help (this text; after a command its own), --version
Exit codes: 0 fine, 1 check failed, 2 usage error, 3 cannot read, 4 in part
)";

auto FindCommand(const CommandList& commands, absl::string_view name) {
  return std::find_if(commands.begin(), commands.end(), [&](const auto& command) { return command->name() == name; });
}

bool IsSection(const Command& command) { return command.place().group == CommandGroup::kReport; }

const char* TitleOf(CommandGroup group) {
  switch (group) {
    case CommandGroup::kRecord:
      return "Record";
    case CommandGroup::kLook:
      return "Look";
    case CommandGroup::kCompare:
      return "Compare";
    case CommandGroup::kPredict:
      return "Predict";
    case CommandGroup::kLive:
      return "Live";
    case CommandGroup::kFiles:
      return "Files";
    case CommandGroup::kReport:
      break;
  }
  return "";
}

// "peak, leaks, oom", in lines of at most `columns`, of which `used` are taken.
std::string SectionNames(const CommandList& commands, size_t used, size_t columns) {
  std::string names;
  for (const auto& command : commands) {
    if (!IsSection(*command)) continue;
    const absl::string_view name = command->name();
    if (!names.empty()) absl::StrAppend(&names, ",");
    const bool fits = used + name.size() + 2 <= columns;
    absl::StrAppend(&names, fits ? " " : "\n", name);
    used = (fits ? used + 1 : 0) + name.size() + 1;
  }
  return names;
}

// One screen: 40 lines of 80 columns.
std::string Overview(const CommandList& commands, const Console& console) {
  constexpr size_t kColumns = 80;
  constexpr absl::string_view kSections = "Sections of report, also commands by themselves:";
  std::string text = console.InWords(kAbout);
  std::string title;
  for (const auto& command : commands) {
    if (IsSection(*command)) continue;
    const std::string group = TitleOf(command->place().group);
    absl::StrAppend(&text, PadRight(group == title ? "" : console.InWords(group), 9), PadRight(command->name(), 10),
                    console.InWords(command->summary()), "\n");
    title = group;
  }
  return absl::StrCat(text, "\n", console.InWords(kSections), SectionNames(commands, kSections.size(), kColumns), "\n",
                      console.InWords(kFlagsAndCodes));
}

// In the reader's language: what is broken into lines is joined and broken anew; lines that begin with blanks stay.
std::string Reworded(absl::string_view help, const Console& console) {
  if (console.out_style().phrases == nullptr) return std::string(help);
  TextStyle style = console.out_style();
  style.width = 80;
  style.is_cut = false;  // examples are for copying
  Page page(style);
  std::string paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) page.Paragraph("", std::exchange(paragraph, ""));
  };
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(help, "\n"), '\n')) {
    if (!line.empty() && line[0] != ' ') {
      absl::StrAppend(&paragraph, paragraph.empty() ? "" : " ", line);
      continue;
    }
    end_paragraph();
    line.empty() ? page.Gap() : page.Line(line);
  }
  end_paragraph();
  return page.text();
}

// `flags`: those that it is shown with.
std::string HelpOf(const Command& command, const std::vector<FlagLine>& flags, const CommandList& commands,
                   const Console& console) {
  std::string text =
      absl::StrCat(console.InWords(absl::StrCat("Usage: gpumemshim ", command.name(), " ", command.arguments())),
                   "\n\n", Reworded(command.help(), console));
  if (command.has_sections()) {
    absl::StrAppend(&text, "\n", console.InWords("Sections, also commands by themselves:"), "\n");
    for (const auto& each : commands) {
      if (!IsSection(*each)) continue;
      absl::StrAppend(&text, "  ", PadRight(each->name(), 15), console.InWords(each->summary()), "\n");
    }
  }
  std::vector<std::string> groups = {Flags::kPlainGroup};
  for (const FlagLine& flag : flags) {
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) groups.push_back(flag.group);
  }
  for (const std::string& group : groups) {
    absl::StrAppend(&text, "\n", console.InWords(absl::StrCat(group, ":")), "\n");
    for (const FlagLine& flag : flags) {
      if (flag.group != group) continue;
      const std::string names = flag.value.empty() ? flag.names : absl::StrCat(flag.names, " ", flag.value);
      absl::StrAppend(&text, "  ", PadRight(names, 24), " ", console.InWords(flag.meaning), "\n");
    }
  }
  return text;
}

int UsageError(const ParsedCommand& parsed, Console* console) {
  const absl::string_view name = parsed.command().name();
  console->Complain(absl::StrCat(parsed.problem(), ", in gpumemshim ", name, ". See gpumemshim ", name, " --help."));
  return kExitUsage;
}

// The sections that `arguments` begin with, each once; they are taken off.
std::vector<Command*> TakeSections(const CommandList& commands, std::vector<std::string>* arguments) {
  std::vector<Command*> sections;
  while (!arguments->empty()) {
    const auto found = FindCommand(commands, arguments->front());
    if (found == commands.end() || !IsSection(**found)) break;
    if (std::find(sections.begin(), sections.end(), found->get()) == sections.end()) sections.push_back(found->get());
    arguments->erase(arguments->begin());
  }
  return sections;
}

int PrintExamples(const ParsedCommand& parsed, Console* console) {
  constexpr int kNames = 15;
  std::string text =
      absl::StrCat(console->InWords("Traces that come with gpumemshim, of programs on a simulated GPU:"), "\n\n");
  for (const ExampleTrace& each : ExampleTraces())
    absl::StrAppend(&text, "  ", PadRight(std::string(each.name), kNames), console->InWords(each.about), "\n");
  absl::StrAppend(&text, "\n  gpumemshim ", parsed.command().name(), " --example ", ExampleTraces().front().name, "\n");
  console->Print(text);
  return kExitFine;
}

int RunOne(Command* command, const std::vector<std::string>& arguments, const CommandList& commands, Console* console) {
  ParsedCommand parsed(command, arguments);
  if (!parsed.language().empty()) console->SetLanguage(parsed.language());
  if (!parsed.problem().empty()) return UsageError(parsed, console);
  if (parsed.wants_help()) {
    console->Print(HelpOf(*command, parsed.flags(), commands, *console));
    return kExitFine;
  }
  if (parsed.wants_examples()) return PrintExamples(parsed, console);
  for (const std::string& argument : parsed.arguments()) {
    const auto found = FindCommand(commands, argument);
    if (!command->has_sections() || found == commands.end() || !IsSection(**found)) continue;
    console->Complain(absl::StrCat("sections come before flags: gpumemshim report ", argument,
                                   " ... (a file of that name is ./", argument, ")"));
    return kExitUsage;
  }
  return parsed.Run(console);
}

int RunSections(const std::vector<Command*>& sections, const std::vector<std::string>& arguments, Command* command,
                const CommandList& commands, Console* console) {
  ReportSections report(sections, arguments);
  for (const auto& section : report.sections()) {
    if (!section->language().empty()) console->SetLanguage(section->language());
    if (!section->problem().empty()) return UsageError(*section, console);
  }
  if (report.sections().front()->wants_examples()) return PrintExamples(*report.sections().front(), console);
  if (!report.sections().front()->wants_help()) return report.Run(console);
  console->Print(HelpOf(*command, report.SharedFlags(), commands, *console));
  return kExitFine;
}

struct RenamedCommand {
  absl::string_view name, now;
};

// For those who type from habit.
constexpr RenamedCommand kRenamed[] = {
    {"compare", "diff A B C..., or diff --table"},
    {"detach", "attach --stop PID"},
    {"dump", "export packets; gpumemshim dump --events is gpumemshim export events"},
    {"recover", "export trace"},
    {"stacks", "export collapsed (with --json: table --by stack --json)"},
    {"symbolize", "export trace --names"},
};

int UnknownCommand(const std::string& word, const CommandList& commands, Console* console) {
  if (absl::StartsWith(word, "-")) {
    console->Complain(absl::StrCat("unknown flag ", word, " before the command. See gpumemshim --help."));
    return kExitUsage;
  }
  for (const RenamedCommand& renamed : kRenamed) {
    if (word != renamed.name) continue;
    console->Complain(absl::StrCat("gpumemshim ", word, " is now gpumemshim ", renamed.now, "."));
    return kExitUsage;
  }
  std::vector<std::string> names;
  for (const auto& command : commands) names.emplace_back(command->name());
  const std::string near = Nearest(word, names);
  if (absl::EndsWith(word, ".py") || word == "python" || word == "python3") {
    console->Complain(absl::StrCat("unknown command \"", word, "\". To record a program: gpumemshim run -- python ",
                                   absl::EndsWith(word, ".py") ? word : "train.py"));
  } else if (near.empty() &&
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

int Dispatch(const std::vector<std::string>& arguments, const CommandList& commands, Console* console) {
  if (arguments.empty()) {
    console->Complain("no command given. Here is what there is:");
    console->Print(Overview(commands, *console));
    return kExitUsage;
  }
  const std::string& word = arguments.front();
  std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (word == "-h" || word == "--help" || (word == "help" && rest.empty())) {
    if (rest.size() == 2 && rest[0] == "--lang") console->SetLanguage(rest[1]);
    console->Print(Overview(commands, *console));
    return kExitFine;
  }
  if (word == "--version" || word == "version") {
    console->Print("gpumemshim " GPUMEM_VERSION "\n");
    return kExitFine;
  }
  const std::string name = word == "help" ? rest.front() : word;
  if (word == "help") rest = {"--help"};
  const auto found = FindCommand(commands, name);
  if (found == commands.end()) return UnknownCommand(name, commands, console);
  const std::vector<Command*> sections =
      (*found)->has_sections() ? TakeSections(commands, &rest) : std::vector<Command*>();
  const int code = sections.size() > 1
                       ? RunSections(sections, rest, found->get(), commands, console)
                       : RunOne(sections.empty() ? found->get() : sections.front(), rest, commands, console);
  console->EndAnswer();
  return console->print_failed() && code == kExitFine ? static_cast<int>(kExitCannotRead) : code;
}

}  // namespace gpumem

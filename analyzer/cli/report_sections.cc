// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/report_sections.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/json_writer.h"
#include "cli/trace_options.h"

namespace gpumem {
namespace {

bool HasFlag(const std::vector<FlagLine>& flags, const std::string& names) {
  return std::any_of(flags.begin(), flags.end(), [&](const FlagLine& flag) { return flag.names == names; });
}

// What it prints, and its exit code.
std::pair<std::string, int> Printed(ParsedCommand* section, Console* console) {
  std::string text;
  console->Capture(&text);
  const int code = section->Run(console);
  console->Capture(nullptr);
  return {std::move(text), code};
}

}  // namespace

ReportSections::ReportSections(const std::vector<Command*>& sections, const std::vector<std::string>& arguments) {
  for (Command* const section : sections) sections_.push_back(std::make_unique<ParsedCommand>(section, arguments));
}

std::vector<FlagLine> ReportSections::SharedFlags() const {
  std::vector<FlagLine> shared = sections_.front()->flags();
  for (const auto& section : sections_) {
    std::erase_if(shared, [&](const FlagLine& flag) { return !HasFlag(section->flags(), flag.names); });
  }
  return shared;
}

int ReportSections::Run(Console* console) {
  const SharedLoads shared;
  return sections_.front()->Has("--json") ? RunAsJson(console) : RunAsText(console);
}

int ReportSections::RunAsText(Console* console) {
  int highest = kExitFine;
  bool is_first = true;
  for (const auto& section : sections_) {
    const auto [text, code] = Printed(section.get(), console);
    highest = std::max(highest, code);
    if (text.empty()) continue;
    if (!is_first) console->Print("\n");
    console->Print(text);
    is_first = false;
  }
  return highest;
}

// A section without an answer is null; without any answer nothing is printed.
int ReportSections::RunAsJson(Console* console) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Field("schema_version", kJsonSchemaVersion);
  json.Field("command", "report");
  json.Key("sections");
  json.BeginObject();
  int highest = kExitFine;
  bool any = false;
  for (const auto& section : sections_) {
    const auto [text, code] = Printed(section.get(), console);
    highest = std::max(highest, code);
    any |= !text.empty();
    json.Key(section->command().name());
    const std::string answer = absl::StrReplaceAll(absl::StripSuffix(text, "\n"), {{"\n", "\n    "}});
    text.empty() ? json.Null() : json.Raw(answer);
  }
  json.EndObject();
  json.EndObject();
  if (any) console->Print(absl::StrCat(out, "\n"));
  return highest;
}

}  // namespace gpumem

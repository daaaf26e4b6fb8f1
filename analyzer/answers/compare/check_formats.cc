// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "answers/compare/check.h"
#include "base/utf8.h"
#include "render/draw.h"

namespace gpumem {
namespace {

// "9.5 GiB, at most 8 GiB: why".
std::string Sentence(const CheckLine& line) {
  std::string text = line.measured.empty() ? "not known" : line.measured;
  absl::StrAppend(&text, ", at most ", line.limit);
  if (!line.why.empty()) absl::StrAppend(&text, ": ", line.why);
  return text;
}

std::string ResultText(CheckResult result) {
  return result == CheckResult::kTooClose ? "too close" : std::string(CheckResultName(result));
}

// Each run once, above its lines.
void AddLines(const std::vector<CheckLine>& lines, Document* answer) {
  std::string run;
  for (const CheckLine& line : lines) {
    if (line.run != run) answer->Line(line.run);
    run = line.run;
    answer->Line(
        absl::StrCat("  ", PadRight(ResultText(line.result), 9), "  ", PadRight(line.name, 17), "  ", Sentence(line)));
  }
}

// Characters that XML 1.0 cannot have are shown as escapes.
std::string Xml(const std::string& text) {
  return absl::StrReplaceAll(
      EscapeControls(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"\n", "&#10;"}, {"\t", "&#9;"}});
}

std::string JUnit(const std::vector<CheckLine>& lines) {
  const auto count = [&](CheckResult result) {
    return std::count_if(lines.begin(), lines.end(), [&](const CheckLine& line) { return line.result == result; });
  };
  std::string out = absl::StrCat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"gpumemshim check\" "
      "tests=\"",
      lines.size(), "\" failures=\"", count(CheckResult::kFailed), "\" errors=\"",
      count(CheckResult::kUnknown) + count(CheckResult::kTooClose), "\" skipped=\"0\">\n");
  for (const CheckLine& line : lines) {
    absl::StrAppend(&out, "    <testcase classname=\"", Xml(line.run), "\" name=\"", Xml(line.name), "\">");
    if (line.result == CheckResult::kPassed)
      absl::StrAppend(&out, "<system-out>", Xml(Sentence(line)), "</system-out>");
    if (line.result == CheckResult::kFailed) absl::StrAppend(&out, "<failure message=\"", Xml(Sentence(line)), "\"/>");
    if (line.result == CheckResult::kUnknown || line.result == CheckResult::kTooClose) {
      absl::StrAppend(&out, "<error message=\"", Xml(absl::StrCat(ResultText(line.result), ": ", Sentence(line))),
                      "\"/>");
    }
    absl::StrAppend(&out, "</testcase>\n");
  }
  return absl::StrCat(out, "  </testsuite>\n</testsuites>\n");
}

// Workflow commands: a line break or a colon in a text must not begin another one.
std::string Annotation(const std::string& text) {
  return absl::StrReplaceAll(text, {{"%", "%25"}, {"\r", "%0D"}, {"\n", "%0A"}});
}
std::string Property(const std::string& text) {
  return absl::StrReplaceAll(Annotation(text), {{":", "%3A"}, {",", "%2C"}});
}

std::string GitHub(const std::vector<CheckLine>& lines) {
  std::string out;
  for (const CheckLine& line : lines) {
    const absl::string_view level = line.result == CheckResult::kFailed   ? "error"
                                    : line.result == CheckResult::kPassed ? "notice"
                                                                          : "warning";
    absl::StrAppend(&out, "::", level,
                    " title=", Property(absl::StrCat("gpumemshim ", line.name, " ", ResultText(line.result))),
                    "::", Annotation(absl::StrCat(line.run, ": ", Sentence(line))), "\n");
  }
  return out;
}

}  // namespace

Document ChecksAnswer(const std::vector<CheckLine>& lines) {
  Document answer;
  answer.Field("schema_version", kJsonSchemaVersion, "");
  answer.Field("command", "check", "");
  answer.Field("exit_code", ExitCodeOfCheck(lines), "that of the command ([exit-codes.md](exit-codes.md))");
  answer.Append(CheckLines(lines));
  return answer;
}

Document CheckLines(const std::vector<CheckLine>& lines) {
  constexpr char kNumber[] = "bytes, bytes a step, or a share; null = not known";
  const auto known = [](const std::optional<double>& value) { return value ? Datum(*value) : Datum(); };
  Document list;
  list.Table("checks", "one object a run and limit",
             std::vector<AnswerColumn<CheckLine>>{
                 {"run", "its name", &CheckLine::run},
                 {"name",
                  "`max_peak`, `max_reserved`, `max_total`, `max_leak`, `max_fragmentation`, `baseline_peak`, "
                  "`baseline_reserved`",
                  &CheckLine::name},
                 {"result", "`passed`, `failed`, `too_close`: within the range of a plan, `unknown`",
                  [](const CheckLine& line) { return CheckResultName(line.result); }},
                 {"measured", kNumber, [=](const CheckLine& line) { return known(line.measured_value); }},
                 {"at_least", "it may have been more than `measured`", &CheckLine::is_least},
                 {"limit", kNumber, [=](const CheckLine& line) { return known(line.limit_value); }},
                 {"why", "of an unknown; of a failed one what is known of its cause", &CheckLine::why}},
             lines, {.layout = JsonLayout::kOneLine});
  AddLines(lines, &list);
  return list;
}

std::string FormatCheck(const std::vector<CheckLine>& lines, CheckFormat format) {
  switch (format) {
    case CheckFormat::kText:
      return ToText(CheckLines(lines), {.utf8 = true, .width = std::numeric_limits<int>::max()});  // no sentence is cut
    case CheckFormat::kJson:
      return ToJson(ChecksAnswer(lines));
    case CheckFormat::kJUnit:
      return JUnit(lines);
    case CheckFormat::kGitHub:
      return GitHub(lines);
  }
  return "";
}

}  // namespace gpumem

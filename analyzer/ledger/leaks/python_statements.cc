// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/python_statements.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

constexpr size_t kMaxLines = 400;  // joined to one statement: more is a text that has lost a bracket

uint32_t IndentOf(absl::string_view line) {
  uint32_t columns = 0;
  for (const char c : line) {
    if (c != ' ' && c != '\t') break;
    columns += c == '\t' ? 8 : 1;
  }
  return columns;
}

// Copies lines without what means nothing here, and counts brackets. Strings keep their quotes only.
class LineScanner {
 public:
  void Add(absl::string_view line, std::string* text) {
    for (size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (!quote_.empty()) {
        if (c == '\\') {
          ++i;
        } else if (absl::StartsWith(line.substr(i), quote_)) {
          i += quote_.size() - 1;
          quote_.clear();
          text->push_back('"');
        }
        continue;
      }
      if (c == '#') break;
      if (c == '"' || c == '\'') {
        const std::string triple(3, c);
        quote_ = absl::StartsWith(line.substr(i), triple) ? triple : std::string(1, c);
        i += quote_.size() - 1;
        text->push_back('"');
        continue;
      }
      if (c == '(' || c == '[' || c == '{') ++depth_;
      if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
      text->push_back(c);
    }
    if (quote_.size() == 1) quote_.clear();  // of one line only
  }
  bool is_open() const { return depth_ > 0 || !quote_.empty(); }

 private:
  std::string quote_;
  int depth_ = 0;
};

// Splits at the last "=" outside of brackets that compares nothing.
void SplitAssignment(PythonStatement* statement) {
  const absl::string_view text = statement->text;
  int depth = 0;
  size_t at = absl::string_view::npos;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c != '=' || depth != 0 || i == 0) continue;
    if (i + 1 < text.size() && text[i + 1] == '=') {
      ++i;
      continue;
    }
    if (text[i - 1] == '!' || text[i - 1] == '<' || text[i - 1] == '>' || text[i - 1] == ':') continue;
    at = i;
  }
  if (at == absl::string_view::npos) return;
  absl::string_view target = text.substr(0, at);
  if (!target.empty() && absl::StrContains("+-*/|&@%^", target.back())) {
    statement->op = std::string(1, target.back());
    target.remove_suffix(1);
  }
  if (!absl::StrContains(target, '[')) target = target.substr(0, target.find(':'));  // an annotation
  statement->target = std::string(absl::StripAsciiWhitespace(target));
  statement->value = std::string(absl::StripAsciiWhitespace(text.substr(at + 1)));
}

bool IsFunction(absl::string_view text) {
  return absl::StartsWith(text, "def ") || absl::StartsWith(text, "async def ");
}

}  // namespace

std::vector<PythonStatement> PythonStatements(const std::vector<std::string>& lines) {
  std::vector<PythonStatement> statements;
  for (size_t i = 0; i < lines.size(); ++i) {
    PythonStatement statement;
    statement.first_line = static_cast<uint32_t>(i + 1);
    statement.indent = IndentOf(lines[i]);
    LineScanner scanner;
    std::string text;
    scanner.Add(absl::StripAsciiWhitespace(lines[i]), &text);
    const size_t end = i + kMaxLines;
    while ((scanner.is_open() || absl::EndsWith(text, "\\")) && i + 1 < lines.size() && i < end) {
      if (absl::EndsWith(text, "\\")) text.pop_back();
      absl::StrAppend(&text, " ");
      scanner.Add(absl::StripAsciiWhitespace(lines[++i]), &text);
    }
    statement.last_line = static_cast<uint32_t>(i + 1);
    statement.text = std::string(absl::StripAsciiWhitespace(text));
    if (statement.text.empty()) continue;
    SplitAssignment(&statement);
    statements.push_back(std::move(statement));
  }
  return statements;
}

std::vector<PythonStatement> BodyAround(const std::vector<PythonStatement>& statements, uint32_t line) {
  size_t at = statements.size();
  for (size_t i = 0; i < statements.size(); ++i) {
    if (statements[i].first_line <= line && line <= statements[i].last_line) at = i;
  }
  if (at == statements.size()) return {};
  uint32_t indent = statements[at].indent;
  size_t begin = at + 1;
  for (size_t i = at; i-- > 0 && indent > 0;) {
    if (statements[i].indent >= indent) continue;
    indent = statements[i].indent;
    if (!IsFunction(statements[i].text)) continue;
    begin = i;
    break;
  }
  if (begin == at + 1) return statements;
  size_t end = begin + 1;
  while (end < statements.size() && statements[end].indent > indent) ++end;
  return {statements.begin() + static_cast<std::ptrdiff_t>(begin),
          statements.begin() + static_cast<std::ptrdiff_t>(end)};
}

std::vector<absl::string_view> NamesIn(absl::string_view text) {
  const auto is_part = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  };
  std::vector<absl::string_view> names;
  for (size_t i = 0; i < text.size();) {
    if (!is_part(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_part(text[end])) ++end;
    const absl::string_view name = text.substr(i, end - i);
    if (!absl::ascii_isdigit(static_cast<unsigned char>(name.front())) && name.front() != '.') names.push_back(name);
    i = end;
  }
  return names;
}

}  // namespace gpumem

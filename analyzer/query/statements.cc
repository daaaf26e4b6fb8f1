// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/statements.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gpumem {
namespace {

// Those that read, and those that make tables and views in memory, which go with the program.
constexpr absl::string_view kAllowed[] = {"SELECT",   "WITH",   "FROM",   "VALUES",    "TABLE",   "PIVOT",  "UNPIVOT",
                                          "DESCRIBE", "DESC",   "SHOW",   "SUMMARIZE", "EXPLAIN", "CREATE", "DROP",
                                          "INSERT",   "UPDATE", "DELETE", "ALTER",     "("};

bool IsWord(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || (c & 0x80) != 0; }

// Behind a quoted text, a comment or a single character that begins at `at`; npos where it does not end.
size_t SkipComment(absl::string_view sql, size_t at) {
  if (sql[at] == '-') {
    const size_t end = sql.find('\n', at);
    return end == absl::string_view::npos ? sql.size() : end;
  }
  size_t depth = 1;
  for (at += 2; at < sql.size(); ++at) {
    const absl::string_view two = sql.substr(at, 2);
    if (two == "*/" && --depth == 0) return at + 2;
    depth += two == "/*" ? 1 : 0;
    at += two == "*/" || two == "/*" ? 1 : 0;
  }
  return absl::string_view::npos;
}

// 'it''s', "a ""name""", e'it\'s'
size_t SkipQuoted(absl::string_view sql, size_t at, bool has_escapes) {
  const char quote = sql[at];
  for (++at; at < sql.size(); ++at) {
    if (has_escapes && sql[at] == '\\') {
      ++at;
    } else if (sql[at] == quote) {
      if (at + 1 >= sql.size() || sql[at + 1] != quote) return at + 1;
      ++at;
    }
  }
  return absl::string_view::npos;
}

// $$text$$, $tag$text$tag$; `at` where it is none.
size_t SkipDollarQuoted(absl::string_view sql, size_t at) {
  size_t end = at + 1;
  while (end < sql.size() && sql[end] != '$' && IsWord(sql[end])) ++end;
  if (end >= sql.size() || sql[end] != '$' || (end > at + 1 && absl::ascii_isdigit(sql[at + 1]))) return at;
  const absl::string_view tag = sql.substr(at, end + 1 - at);
  const size_t close = sql.find(tag, end + 1);
  return close == absl::string_view::npos ? close : close + tag.size();
}

bool BeginsComment(absl::string_view sql, size_t at) { return sql.substr(at, 2) == "--" || sql.substr(at, 2) == "/*"; }

// Behind the token at `at`.
size_t SkipToken(absl::string_view sql, size_t at) {
  if (BeginsComment(sql, at)) return SkipComment(sql, at);
  const bool has_escapes = at > 0 && (sql[at - 1] == 'e' || sql[at - 1] == 'E') && (at < 2 || !IsWord(sql[at - 2]));
  if (sql[at] == '\'' || sql[at] == '"') return SkipQuoted(sql, at, has_escapes && sql[at] == '\'');
  if (sql[at] == '$' && (at == 0 || !IsWord(sql[at - 1]))) {
    const size_t end = SkipDollarQuoted(sql, at);
    if (end != at) return end;
  }
  return at + 1;
}

// "('peak')", "('end')", "('step 12')": moments that need no event to be found.
bool IsOfTables(absl::string_view arguments) {
  if (!absl::ConsumePrefix(&arguments, "('")) return false;
  if (absl::ConsumePrefix(&arguments, "step ") || absl::ConsumePrefix(&arguments, "step:")) {
    const size_t digits = arguments.find_first_not_of("0123456789");
    return digits != 0 && digits != absl::string_view::npos && absl::StartsWith(arguments.substr(digits), "')");
  }
  return absl::StartsWith(arguments, "peak')") || absl::StartsWith(arguments, "end')");
}

// Without blanks and comments before the first word.
absl::string_view WithoutLead(absl::string_view sql) {
  while (!sql.empty()) {
    if (absl::ascii_isspace(sql[0]) || sql[0] == ';') {
      sql.remove_prefix(1);
    } else if (BeginsComment(sql, 0)) {
      const size_t end = SkipComment(sql, 0);
      sql.remove_prefix(std::min(end, sql.size()));
    } else {
      break;
    }
  }
  return sql;
}

}  // namespace

SplitSql SplitStatements(absl::string_view sql) {
  SplitSql split;
  size_t begin = 0, end_of_code = 0;  // of the statement: behind its last token that is not a comment
  const auto text = [&](size_t end) {
    return std::string(absl::StripAsciiWhitespace(WithoutLead(sql.substr(begin, std::max(end, begin) - begin))));
  };
  for (size_t at = 0; at < sql.size();) {
    if (sql[at] == ';') {
      if (std::string statement = text(end_of_code); !statement.empty())
        split.statements.push_back(std::move(statement));
      begin = end_of_code = ++at;
      continue;
    }
    const bool is_code = !BeginsComment(sql, at) && !absl::ascii_isspace(sql[at]);
    const size_t next = SkipToken(sql, at);
    if (next == absl::string_view::npos) {
      split.is_open = true;
      split.rest = std::string(sql.substr(begin));
      return split;
    }
    at = next;
    if (is_code) end_of_code = at;
  }
  split.rest = text(end_of_code);
  return split;
}

std::string FirstWord(absl::string_view statement) {
  const absl::string_view sql = WithoutLead(statement);
  size_t end = 0;
  while (end < sql.size() && IsWord(sql[end])) ++end;
  return absl::AsciiStrToUpper(sql.substr(0, end == 0 && !sql.empty() ? 1 : end));
}

absl::Status CheckAllowed(absl::string_view statement) {
  const std::string word = FirstWord(statement);
  if (word.empty() || std::find(std::begin(kAllowed), std::end(kAllowed), word) != std::end(kAllowed))
    return absl::OkStatus();
  return Refused(word);
}

bool MayReadEvents(absl::string_view statement) {
  // Tables and views of events; functions that are told a table's name in a text; what lists all tables.
  constexpr absl::string_view kNames[] = {"events",   "marks",    "torch_trace", "device_traces",
                                          "counters", "samples",  "query",       "query_table",
                                          "show",     "describe", "u",           "cuda_gpu_memory_usage_events"};
  constexpr absl::string_view kLists[] = {"duckdb_", "pragma_", "pg_", "sqlite_", "information_schema"};
  const std::string sql = absl::AsciiStrToLower(statement);
  const absl::string_view text = sql;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && IsWord(text[end])) ++end;
    const absl::string_view word = text.substr(at, end - at), after = text.substr(end);
    at = std::max(end, at + 1);
    if (word.empty()) continue;
    if (word == "u" && !absl::StartsWith(after, "&")) continue;  // U&"ev\0065nts"
    if (std::find(std::begin(kNames), std::end(kNames), word) != std::end(kNames)) return true;
    const auto begins = [&](absl::string_view prefix) { return absl::StartsWith(word, prefix); };
    if (std::any_of(std::begin(kLists), std::end(kLists), begins)) return true;
    if ((word == "live_at" || word == "moment_at") && !IsOfTables(after)) return true;
  }
  return FirstWord(statement) == "DESC";
}

absl::Status Refused(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what,
                   " is refused, or no SQL: queries read the tables and nothing else, no files, network or settings. "
                   "Results go to a file with -o; --unsafe allows every statement of DuckDB"));
}

std::optional<Explained> SplitExplain(absl::string_view statement) {
  if (FirstWord(statement) != "EXPLAIN") return std::nullopt;
  Explained explained{"EXPLAIN ", ""};
  absl::string_view rest = WithoutLead(WithoutLead(statement).substr(7));
  if (const std::string word = FirstWord(rest); word == "ANALYZE" || word == "ANALYSE") {
    explained.prefix += "ANALYZE ";
    rest = WithoutLead(rest.substr(7));
  }
  // Options are words and commas alone: anything else in parentheses is the query.
  const size_t end = rest.empty() || rest[0] != '(' ? absl::string_view::npos : rest.find(')');
  if (end != absl::string_view::npos) {
    const absl::string_view options = rest.substr(1, end - 1);
    const std::string first = FirstWord(options);
    const bool are_words = std::all_of(options.begin(), options.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ',' || c == ' ';
    });
    if (are_words && (first == "FORMAT" || first == "ANALYZE")) {
      absl::StrAppend(&explained.prefix, "(", options, ") ");
      rest = WithoutLead(rest.substr(end + 1));
    }
  }
  explained.statement = std::string(rest);
  return explained;
}

std::vector<std::string> FunctionsInPlan(absl::string_view plan) {
  // What a query says is in the plan's texts, where quotes have a backslash before them.
  constexpr absl::string_view kKey = "\"Function\": \"";
  std::vector<std::string> functions;
  for (size_t at = plan.find(kKey); at != absl::string_view::npos; at = plan.find(kKey, at)) {
    at += kKey.size();
    functions.emplace_back(plan.substr(at, plan.find('"', at) - at));
  }
  return functions;
}

bool IsReadingFunction(absl::string_view name) {
  constexpr absl::string_view kReading[] = {"RANGE",     "GENERATE_SERIES", "UNNEST",           "JSON_EACH",
                                            "JSON_TREE", "REPEAT",          "REPEAT_ROW",       "ICU_CALENDAR_NAMES",
                                            "SEQ_SCAN",  "TEST_ALL_TYPES",  "PG_TIMEZONE_NAMES"};
  return absl::StartsWith(name, "DUCKDB_") || absl::StartsWith(name, "PRAGMA_") ||
         std::find(std::begin(kReading), std::end(kReading), name) != std::end(kReading);
}

}  // namespace gpumem

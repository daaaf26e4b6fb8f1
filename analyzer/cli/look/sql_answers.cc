// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/look/sql_answers.h"

#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/output_file.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "query/schema.h"
#include "query/statements.h"
#include "query/views.h"

namespace gpumem {
namespace {

constexpr char kHelp[] = R"(Type SQL and end it with a semicolon. What else there is:
  .tables            tables, views and functions
  .schema [TABLE]    columns with type, unit and meaning
  .format FORMAT     table, csv or json
  .help              this
  .quit              leave (or Ctrl-D)
)";

// What a name's line begins with, so that what follows lines up.
std::string Padded(absl::string_view name, int width) { return absl::StrCat("  ", PadRight(name, width), "  "); }

}  // namespace

absl::Status SqlAnswers::AnswerAll(const std::string& sql) {
  if (const std::string line(absl::StripAsciiWhitespace(sql)); IsWord(line)) return AnswerWord(line);
  SplitSql split = SplitStatements(sql);
  if (split.is_open) return absl::InvalidArgumentError("a quote or comment in the query does not end");
  if (!split.rest.empty()) split.statements.push_back(split.rest);
  if (split.statements.empty())
    return absl::InvalidArgumentError("there is no query. gpumemshim sql --help has examples");
  if (!options_.output.empty()) {
    if (split.statements.size() > 1)
      return absl::InvalidArgumentError("-o takes the rows of one query, and these are several");
    return AnswerIntoFile(split.statements.front());
  }
  for (const std::string& statement : split.statements) GPUMEM_RETURN_IF_ERROR(Answer(statement));
  return absl::OkStatus();
}

absl::Status SqlAnswers::Answer(const std::string& statement) {
  GPUMEM_ASSIGN_OR_RETURN(Rows rows, session_->Run(statement));
  if (!rows.returns_rows()) {
    while (rows.Next()) {
    }
    return rows.status();
  }
  TableLayout layout;
  const TextStyle& style = console_->out_style();
  if (style.terminal) {
    layout.width = style.width;
    layout.most_rows = options_.limit;
  }
  const TextSink sink = [this](absl::string_view text) { console_->Print(text); };
  const bool is_json = options_.format == RowFormat::kJson;
  if (is_json) sink("{\"command\": \"sql\", \"rows\": ");
  const absl::StatusOr<uint64_t> count = WriteRows(options_.format, layout, &rows, sink);
  if (!count.ok()) return count.status();
  if (is_json)
    sink(
        absl::StrCat(", \"row_count\": ", *count, ", \"partial\": ", session_->is_partial() ? "true" : "false", "}\n"));
  return absl::OkStatus();
}

absl::Status SqlAnswers::AnswerIntoFile(const std::string& statement) {
  const OutputOptions to{.is_named = true};
  if (options_.is_parquet) {
    GPUMEM_RETURN_IF_ERROR(session_->CopyToParquet(statement));
    return MoveToOutput(options_.temporary, options_.output, to);
  }
  GPUMEM_ASSIGN_OR_RETURN(Rows rows, session_->Run(statement));
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(options_.output, to));
  const TextSink sink = [&](absl::string_view text) { file->Write(text).IgnoreError(); };
  const absl::StatusOr<uint64_t> count = WriteRows(options_.format, {}, &rows, sink);
  if (options_.format == RowFormat::kJson) sink("\n");
  GPUMEM_RETURN_IF_ERROR(count.status());
  return file->Commit();
}

void SqlAnswers::PrintTables() {
  std::string text = "tables\n";
  for (const TableSchema* const table : AllTables())
    absl::StrAppend(&text, Padded(table->name, 10), table->about, "\n");
  text += "views\n";
  for (const ViewInfo& view : Views()) absl::StrAppend(&text, Padded(view.name, 28), view.about, "\n");
  text += "functions\n";
  for (const ViewInfo& function : Functions()) absl::StrAppend(&text, Padded(function.name, 18), function.about, "\n");
  console_->Print(text);
}

absl::Status SqlAnswers::PrintSchema(const std::string& name) {
  std::string text;
  for (const TableSchema* const table : AllTables()) {
    if (!name.empty() && !absl::EqualsIgnoreCase(name, table->name)) continue;
    absl::StrAppend(&text, text.empty() ? "" : "\n", table->name, ": ", table->about, "\n");
    for (const TableColumn& column : table->columns) {
      absl::StrAppend(&text, Padded(column.name, 21), PadRight(TypeName(column.type), 9), PadRight(column.unit, 7),
                      column.about, "\n");
    }
    absl::StrAppend(&text, Padded("trace, rank", 21), PadRight("INTEGER", 16),
                    "number of the trace, from 0; rank of its process, NULL: not known\n");
    absl::StrAppend(&text, Padded("_rank", 21), PadRight("INTEGER", 16), "as rank: a tag of where the row is from\n");
    absl::StrAppend(&text, Padded("_host, _role", 21), PadRight("VARCHAR", 16),
                    "machine; role in the job as in processes, NULL: not known\n");
  }
  if (text.empty() && !name.empty()) return Answer(absl::StrCat("DESCRIBE ", name));
  console_->Print(text);
  return absl::OkStatus();
}

absl::Status SqlAnswers::AnswerWord(const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  const std::string argument = words.size() > 1 ? words[1] : "";
  if (words[0] == ".tables") {
    PrintTables();
  } else if (words[0] == ".schema") {
    return PrintSchema(argument);
  } else if (words[0] == ".help") {
    console_->Say(kHelp);
  } else if (words[0] == ".format" && (argument == "table" || argument == "csv" || argument == "json")) {
    options_.format = argument == "csv" ? RowFormat::kCsv : argument == "json" ? RowFormat::kJson : RowFormat::kTable;
  } else {
    return absl::InvalidArgumentError(absl::StrCat("unknown: ", line, ". .help lists what there is"));
  }
  return absl::OkStatus();
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/look/sql_answers.h"
#include "cli/look/sql_shell.h"
#include "cli/symbol_flags.h"
#include "ledger/load/find_traces.h"
#include "query/session.h"
#include "query/statements.h"

namespace gpumem {
namespace {

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

bool IsFolder(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Whether an argument can be SQL: it names no file, and has blanks or is one of the shell's own words.
bool IsSql(const std::string& argument) {
  const bool is_shell_word =
      argument.size() > 1 && argument[0] == '.' && absl::ascii_isalpha(static_cast<unsigned char>(argument[1]));
  const bool has_form = argument.find_first_of(" \t\n;(") != std::string::npos || is_shell_word;
  return has_form && !absl::EndsWith(argument, ".gmtrace") && !Exists(argument);
}

// The query among the arguments, whichever its place; "" = none.
absl::StatusOr<std::string> TakeSql(std::vector<std::string>* places) {
  std::string sql;
  for (const std::string& place : *places) {
    if (!IsSql(place)) continue;
    if (!sql.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("two queries, and ", place, " is the second. Give one, or both in one with ; between them."));
    }
    sql = place;
  }
  std::erase_if(*places, IsSql);
  return sql;
}

std::string ReadAll(std::istream& input) {
  return std::string(std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>());
}

class SqlCommand final : public Command {
 public:
  absl::string_view name() const override { return "sql"; }
  CommandPlace place() const override { return {CommandGroup::kLook, 10}; }
  absl::string_view summary() const override { return "ask traces in SQL: events, blocks, stacks, steps, ..."; }
  absl::string_view arguments() const override { return "[FLAGS] [FILE|DIR ...] ['SELECT ...']"; }
  absl::string_view help() const override {
    return R"(Answers SQL over traces: every event, every block with its category, module, stage, step and line. Without a
query it is a shell. A DIR stands for all traces in it (ranks); rows have the columns trace and rank.
The first query of a trace builds an index, which later ones use. Queries only read: no files, network or
settings, unless --unsafe. docs/sql.md has every table, column and many queries.

  gpumemshim sql run.gmtrace 'SELECT category, human(sum(size)) FROM live_at('\''peak'\'') GROUP BY ALL ORDER BY sum(size) DESC'
  gpumemshim sql run.gmtrace .tables
  gpumemshim sql runs/ 'SELECT rank, max(allocated) FROM events GROUP BY rank'
  gpumemshim sql run.gmtrace --format csv -o steps.csv 'SELECT * FROM steps'
  gpumemshim sql run.gmtrace < questions.sql
)";
  }
  size_t most_arguments() const override { return 100'000; }

  void AddFlags(Flags* flags) override {
    flags->Add("--json", &json_, "as --format json");
    flags->Add("--format", &format_, "table, csv, json; parquet with -o")
        .Value("FORMAT")
        .OneOf({"table", "csv", "json", "parquet"});
    flags->Add("-o,--output", &output_, "write the rows to FILE").Value("FILE");
    flags->Add("--limit", &limit_, "most rows of a table on a terminal; 0 = all (1000)").Value("N");
    flags->Add("--file", &file_, "read the queries from FILE").Value("FILE");
    flags->Add("--index-dir", &index_folder_, "where indexes are kept (GPUMEMSHIM_INDEX_DIR, or the user's cache)")
        .Value("DIR");
    flags->Add("--memory", &memory_, "most memory that queries take (2GB)").Value("SIZE");
    flags->Add("--unsafe", &is_unsafe_, "allow files, network and settings in queries");
    symbols_.AddFlags(flags);
  }

  absl::StatusOr<int> Run(const std::vector<std::string>& arguments, Console* console) override {
    std::vector<std::string> places = arguments;
    GPUMEM_ASSIGN_OR_RETURN(std::string sql, TakeSql(&places));
    bool has_sql = !file_.empty();
    if (!sql.empty()) {
      if (has_sql) return absl::InvalidArgumentError("a query and --file. Give one of them.");
      has_sql = true;
    } else if (has_sql) {
      GPUMEM_ASSIGN_OR_RETURN(sql, ReadFile());
    } else if (isatty(STDIN_FILENO) == 0) {
      sql = ReadStandardInput();
      has_sql = true;
    }
    GPUMEM_ASSIGN_OR_RETURN(SqlAnswers::Options options, AnswerOptions(has_sql));
    std::unique_ptr<HalfWritten> half;
    if (options.is_parquet) {
      GPUMEM_ASSIGN_OR_RETURN(half, FolderForParquet());
      options.temporary = absl::StrCat(half->path(), "/rows.parquet");
    }
    GPUMEM_ASSIGN_OR_RETURN(SessionRequest request, Request(places, options, console));
    request.sql = sql;
    absl::StatusOr<std::unique_ptr<SqlSession>> session = SqlSession::Open(request);
    console->ProgressDone();
    if (!session.ok()) return session.status();
    for (const std::string& note : (*session)->notes()) console->Complain(note);
    SqlAnswers answers(session->get(), options, console);
    if (!has_sql) {
      GPUMEM_RETURN_IF_ERROR(RunSqlShell(&answers, session->get(), console));
    } else {
      GPUMEM_RETURN_IF_ERROR(answers.AnswerAll(sql));
    }
    return (*session)->is_partial() ? kExitDamaged : kExitFine;
  }

 private:
  absl::StatusOr<std::string> ReadFile() const {
    std::ifstream input(file_, std::ios::binary);
    if (!input) return absl::InvalidArgumentError(absl::StrCat("cannot read ", file_, ", in --file"));
    return ReadAll(input);
  }
  static std::string ReadStandardInput() {
    std::string text;
    char buffer[65536];
    for (ssize_t got = 0; (got = read(STDIN_FILENO, buffer, sizeof(buffer))) > 0;)
      text.append(buffer, static_cast<size_t>(got));
    return text;
  }

  // DuckDB opens its file by a name: in a folder that nobody else writes to, beside the output where that is a file.
  absl::StatusOr<std::unique_ptr<HalfWritten>> FolderForParquet() const {
    const OutputPlace place = FindOutputPlace(output_);
    const bool is_file = place.kind == OutputPlace::Kind::kNothing || place.kind == OutputPlace::Kind::kPlain;
    if (!is_file) {
      GPUMEM_ASSIGN_OR_RETURN(const std::string folder, NewTemporaryFolder("sql"));
      return std::make_unique<HalfWritten>(folder);
    }
    auto half = std::make_unique<HalfWritten>(HalfWritten::NameFor(place.path));
    if (const absl::Status made = half->MakeFolder(); !made.ok()) {
      half->Keep();
      return made;
    }
    return half;
  }

  absl::StatusOr<SqlAnswers::Options> AnswerOptions(bool has_sql) const {
    SqlAnswers::Options options;
    const std::string format = json_ ? "json" : format_;
    options.is_parquet = format == "parquet";
    options.format = format == "csv" ? RowFormat::kCsv : format == "json" ? RowFormat::kJson : RowFormat::kTable;
    options.output = output_;
    options.limit = limit_;
    if (options.is_parquet && output_.empty())
      return absl::InvalidArgumentError("Parquet is not text. Name a file: --format parquet -o FILE");
    if (!output_.empty() && !has_sql) return absl::InvalidArgumentError("-o is for a query, not for the shell");
    return options;
  }

  absl::StatusOr<SessionRequest> Request(const std::vector<std::string>& places, const SqlAnswers::Options& options,
                                         Console* console) const {
    SessionRequest request;
    for (const std::string& place : places) {
      const std::vector<std::string> inside = IsFolder(place) ? TracesOfFolder(place) : std::vector<std::string>{place};
      if (inside.empty()) return absl::NotFoundError(absl::StrCat("no *.gmtrace in ", place));
      request.traces.insert(request.traces.end(), inside.begin(), inside.end());
    }
    if (places.empty()) {
      GPUMEM_ASSIGN_OR_RETURN(const std::string newest, FindTrace(""));
      request.traces.push_back(newest);
    }
    request.index_folder = index_folder_;
    request.output = options.temporary;
    request.memory = memory_;
    request.is_unsafe = is_unsafe_;
    GPUMEM_ASSIGN_OR_RETURN(request.symbols, symbols_.Options());
    request.progress = [console](const std::string& what, uint64_t done, uint64_t all) {
      console->Progress(what, done, all);
    };
    return request;
  }

  bool json_ = false, is_unsafe_ = false;
  std::string format_ = "table", output_, file_, index_folder_, memory_ = "2GB";
  uint64_t limit_ = 1000;
  SymbolFlags symbols_;
};

}  // namespace

std::unique_ptr<Command> MakeSqlCommand() { return std::make_unique<SqlCommand>(); }

}  // namespace gpumem

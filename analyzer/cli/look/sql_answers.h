// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SqlAnswers: statements and the shell's own words (.tables) in, rows on the console or in a file out. Not thread-safe;
// the session and the console must outlive it.
//
//   SqlAnswers answers(session.get(), options, console);
//   GPUMEM_RETURN_IF_ERROR(answers.AnswerAll("SELECT 1; SELECT 2"));

#ifndef GPUMEM_ANALYZER_CLI_LOOK_SQL_ANSWERS_H_
#define GPUMEM_ANALYZER_CLI_LOOK_SQL_ANSWERS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/console.h"
#include "query/output.h"
#include "query/session.h"

namespace gpumem {

class SqlAnswers {
 public:
  struct Options {
    RowFormat format = RowFormat::kTable;
    bool is_parquet = false;
    std::string output;     // a file; "" = the console
    std::string temporary;  // Parquet's, under which it is written first
    uint64_t limit = 1000;
  };

  SqlAnswers(SqlSession* session, Options options, Console* console)
      : session_(session), options_(std::move(options)), console_(console) {}

  // Each statement in turn, up to the first that fails. Into a file exactly one goes.
  absl::Status AnswerAll(const std::string& sql);
  absl::Status Answer(const std::string& statement);
  // ".tables", ".schema [TABLE]", ".format FORMAT", ".help".
  absl::Status AnswerWord(const std::string& line);
  static bool IsWord(const std::string& line) { return !line.empty() && line[0] == '.'; }

 private:
  absl::Status AnswerIntoFile(const std::string& statement);
  void PrintTables();
  absl::Status PrintSchema(const std::string& name);

  SqlSession* session_;
  Options options_;
  Console* console_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_LOOK_SQL_ANSWERS_H_

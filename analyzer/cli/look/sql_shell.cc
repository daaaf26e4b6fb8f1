// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/look/sql_shell.h"

#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/line_editor.h"
#include "ledger/saved/index_file.h"
#include "query/statements.h"

namespace gpumem {
namespace {

const SqlSession* running = nullptr;  // that Ctrl-C interrupts

void Interrupt(int) {
  if (running != nullptr) running->Interrupt();
}

// Ctrl-C ends what runs in the session as long as this lives.
class InterruptsQuery {
 public:
  explicit InterruptsQuery(const SqlSession* session) {
    running = session;
    struct sigaction action {};
    action.sa_handler = &Interrupt;
    sigaction(SIGINT, &action, &before_);
  }
  InterruptsQuery(const InterruptsQuery&) = delete;
  InterruptsQuery& operator=(const InterruptsQuery&) = delete;
  ~InterruptsQuery() {
    sigaction(SIGINT, &before_, nullptr);
    running = nullptr;
  }

 private:
  struct sigaction before_ {};
};

void Show(const absl::Status& status, Console* console) {
  if (absl::IsCancelled(status)) return console->Complain("interrupted");
  if (!status.ok()) console->Complain(status.message());
}

}  // namespace

absl::Status RunSqlShell(SqlAnswers* answers, SqlSession* session, Console* console) {
  const std::string folder = CacheFolder();
  if (!folder.empty()) MakeIndexFolder(folder).IgnoreError();  // without it there is no history
  LineEditor editor(STDIN_FILENO, STDOUT_FILENO, folder.empty() ? "" : folder + "/sql_history");
  console->Say("SQL, ended by a semicolon. .tables lists what there is, .help the rest, .quit leaves.\n");
  std::string typed;
  while (const std::optional<std::string> line = editor.Read(typed.empty() ? "sql> " : "...> ")) {
    if (typed.empty() && SqlAnswers::IsWord(*line)) {
      editor.Remember(*line);
      const std::string word(absl::StripAsciiWhitespace(*line));
      if (word == ".quit" || word == ".exit") break;
      Show(answers->AnswerWord(word), console);
      continue;
    }
    if (line->empty()) {  // also Ctrl-C
      typed.clear();
      continue;
    }
    absl::StrAppend(&typed, typed.empty() ? "" : "\n", *line);
    const SplitSql split = SplitStatements(typed);
    if (split.is_open || !split.rest.empty() || split.statements.empty()) continue;
    editor.Remember(typed);
    typed.clear();
    const InterruptsQuery interrupts(session);
    for (const std::string& statement : split.statements) {
      const absl::Status status = answers->Answer(statement);
      Show(status, console);
      if (!status.ok()) break;
    }
  }
  return absl::OkStatus();
}

}  // namespace gpumem

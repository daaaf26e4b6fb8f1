// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The shell of `gpumemshim sql`: lines with history, statements over several lines, Ctrl-C that ends a query and not
// the program. Not thread-safe.
//
//   GPUMEM_RETURN_IF_ERROR(RunSqlShell(&answers, session.get(), console));

#ifndef GPUMEM_ANALYZER_CLI_LOOK_SQL_SHELL_H_
#define GPUMEM_ANALYZER_CLI_LOOK_SQL_SHELL_H_

#include "absl/status/status.h"
#include "base/console.h"
#include "cli/look/sql_answers.h"
#include "query/session.h"

namespace gpumem {

// Until .quit or the end of input. Errors of statements are printed and do not end it.
absl::Status RunSqlShell(SqlAnswers* answers, SqlSession* session, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_LOOK_SQL_SHELL_H_

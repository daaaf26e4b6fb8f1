// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Python source as statements: lines joined where a bracket is open, comments and the inside of strings left out, split
// at an assignment. No parser: enough to follow names through a function. Any text is accepted. Pure.
//
//   for (const PythonStatement& statement : BodyAround(PythonStatements(lines), 42)) statement.target;

#ifndef GPUMEM_ANALYZER_LEDGER_LEAKS_PYTHON_STATEMENTS_H_
#define GPUMEM_ANALYZER_LEDGER_LEAKS_PYTHON_STATEMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gpumem {

struct PythonStatement {
  uint32_t first_line = 0, last_line = 0;  // from 1
  uint32_t indent = 0;                     // columns; a tab counts as eight
  std::string text;                        // without indent and comment
  std::string target, op, value;           // of an assignment: "total", "+" (of "+=", else ""), "loss"
};

std::vector<PythonStatement> PythonStatements(const std::vector<std::string>& lines);

// Those of the innermost function around a line; of the whole module where there is none.
std::vector<PythonStatement> BodyAround(const std::vector<PythonStatement>& statements, uint32_t line);

// The dotted names in an expression: "self.total", "loss". Numbers are none.
std::vector<absl::string_view> NamesIn(absl::string_view text);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_LEAKS_PYTHON_STATEMENTS_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SQL text as statements: where each ends (quotes and comments considered), and whether a statement is one that only
// reads. DuckDB itself is locked besides; this says it in words of our own, before anything runs. Pure functions.
//
//   const SplitSql split = SplitStatements("SELECT 1; -- done\nSELECT 2");   // {"SELECT 1", "SELECT 2"}, rest ""
//   GPUMEM_RETURN_IF_ERROR(CheckAllowed("PRAGMA version"));                  // InvalidArgument

#ifndef GPUMEM_ANALYZER_QUERY_STATEMENTS_H_
#define GPUMEM_ANALYZER_QUERY_STATEMENTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpumem {

struct SplitSql {
  std::vector<std::string> statements;  // each ended by a semicolon, which is left out; without comments around them
  std::string rest;                     // what follows the last semicolon, "" where only blanks and comments do
  bool is_open = false;                 // a quote or comment in `rest` does not end
};

SplitSql SplitStatements(absl::string_view sql);

// The first word behind blanks and comments, in capitals; "" where there is none.
std::string FirstWord(absl::string_view statement);

// InvalidArgument where a statement reaches files, the network or settings.
absl::Status CheckAllowed(absl::string_view statement);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_STATEMENTS_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SQL text as statements: where each ends (quotes and comments considered), and whether a statement begins as one that
// only reads. DuckDB's parser has the last word (session.h); this says it in words of our own, before anything else.
// Pure functions.
//
//   const SplitSql split = SplitStatements("SELECT 1; -- done\nSELECT 2");   // {"SELECT 1", "SELECT 2"}, rest ""
//   GPUMEM_RETURN_IF_ERROR(CheckAllowed("PRAGMA version"));                  // InvalidArgument

#ifndef GPUMEM_ANALYZER_QUERY_STATEMENTS_H_
#define GPUMEM_ANALYZER_QUERY_STATEMENTS_H_

#include <optional>
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
// Whether a statement may look at events, counters or samples (schema.h, IsOfEvents), or at what there is at all. True
// for more than do.
bool MayReadEvents(absl::string_view statement);
// "WHAT is refused, ...": queries only read.
absl::Status Refused(absl::string_view what);

// EXPLAIN and what it is about, which DuckDB runs where it is to be analyzed.
struct Explained {
  std::string prefix;  // "EXPLAIN ANALYZE (FORMAT json) ", made anew
  std::string statement;
};
// Nothing where the statement does not begin with EXPLAIN.
std::optional<Explained> SplitExplain(absl::string_view statement);

// The table functions that a plan of EXPLAIN (FORMAT json) calls: "RANGE", "DUCKDB_SETTINGS".
std::vector<std::string> FunctionsInPlan(absl::string_view plan);
// Of those that are known to read alone. Others write logs and profiles, change settings or the parser.
bool IsReadingFunction(absl::string_view name);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_STATEMENTS_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ExportParquet: every table of `gpumemshim sql` as Parquet, for Spark, DuckDB, ClickHouse, pyarrow and pandas, a
// process a core, each one trace after the other, so that memory is that of a few:
//
//   FOLDER/blocks/rank=0/trace-00000.parquet, FOLDER/events/rank=0/..., one folder a table, partitioned as Hive does
//   FOLDER/ranks/ranks.parquet   who is missing, damaged, of another job (rank_table.h)
//
//   GPUMEM_ASSIGN_OR_RETURN(const bool is_partial, ExportParquet({"runs/"}, "tables", options, console));
//
// The folder appears whole or not at all. InvalidArgument where it is there already, or DuckDB is not. Not thread-safe.

#ifndef GPUMEM_ANALYZER_CLI_FILES_PARQUET_EXPORT_H_
#define GPUMEM_ANALYZER_CLI_FILES_PARQUET_EXPORT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "cli/symbol_flags.h"

namespace gpumem {

struct ParquetOptions {
  SymbolFlags symbols;
  bool by_rank = true;  // a folder a rank in each table's; else one folder a table
  size_t jobs = 0;      // traces that are exported at once; 0 = one a core, at most 8
};

// True where tables are of a part: a trace is damaged or was left out, or, of several, ranks are missing or foreign.
absl::StatusOr<bool> ExportParquet(const std::vector<std::string>& places, const std::string& folder,
                                   const ParquetOptions& options, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_FILES_PARQUET_EXPORT_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ExportParquet: every table of `gpumem sql` as Parquet, for Spark, DuckDB, pyarrow and pandas:
//
//   FOLDER/blocks/rank=0/data_0.parquet, FOLDER/events/rank=0/..., one folder a table, partitioned as Hive does
//
//   GPUMEM_ASSIGN_OR_RETURN(const bool is_partial, ExportParquet({"runs/"}, "tables", symbols, console));
//
// The folder appears whole or not at all. InvalidArgument where it is there already, or DuckDB is not. Not thread-safe.

#ifndef GPUMEM_ANALYZER_COMMANDS_PARQUET_EXPORT_H_
#define GPUMEM_ANALYZER_COMMANDS_PARQUET_EXPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/console.h"
#include "commands/symbol_flags.h"

namespace gpumem {

// True where tables are of a part: a trace is damaged, or was left out.
absl::StatusOr<bool> ExportParquet(const std::vector<std::string>& places, const std::string& folder,
                                   const SymbolFlags& symbols, Console* console);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_COMMANDS_PARQUET_EXPORT_H_

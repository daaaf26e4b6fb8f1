// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Results as people and programs read them: an aligned table, CSV, JSON. Row by row, in bounded memory: a table's
// widths are those of its first rows. Not thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const uint64_t count, WriteRows(RowFormat::kCsv, layout, &rows, sink));

#ifndef GPUMEM_ANALYZER_QUERY_OUTPUT_H_
#define GPUMEM_ANALYZER_QUERY_OUTPUT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/text_sink.h"
#include "query/database.h"

namespace gpumem {

enum class RowFormat : uint8_t { kTable, kCsv, kJson };

// Of tables.
struct TableLayout {
  int width = 0;           // of the terminal, into which columns are cut; 0 = nothing is ever cut
  uint64_t most_rows = 0;  // shown; 0 = all
};

// Number of rows written. kJson: an array of objects, without a line end behind it.
absl::StatusOr<uint64_t> WriteRows(RowFormat format, const TableLayout& layout, Rows* rows, const TextSink& sink);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_OUTPUT_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Cells of a result as text, exactly: every type of DuckDB's that a query of ours can yield, lists and structs too.
// Pure functions.
//
//   const Cell cell = CellAt(rows, column, row);   // {"12.5", is_number}

#ifndef GPUMEM_ANALYZER_QUERY_CELL_TEXT_H_
#define GPUMEM_ANALYZER_QUERY_CELL_TEXT_H_

#include <cstdint>
#include <string>

#include "query/database.h"

namespace gpumem {

struct Cell {
  std::string text;  // "" where NULL
  bool is_null = false;
  bool is_number = false;  // text is a JSON number
  bool is_boolean = false;
  int64_t number = 0;  // of integers that fit
};

// Of the current chunk.
Cell CellAt(const Rows& rows, size_t column, uint64_t row);

// Whether a column's values are set flush right.
bool IsNumeric(DuckType type);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_CELL_TEXT_H_

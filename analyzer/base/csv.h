// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CsvCell: a text as one cell of a CSV file (RFC 4180). Thread-safe.
//
//   CsvCell("a, b")            "a, b" in quotes
//   CsvCell("=HYPERLINK(...)") '=HYPERLINK(...): a spreadsheet program takes what begins so for a formula
//   CsvCell("-12.5")           -12.5: numbers stay numbers

#ifndef GPUMEM_ANALYZER_BASE_CSV_H_
#define GPUMEM_ANALYZER_BASE_CSV_H_

#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

std::string CsvCell(absl::string_view text);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_CSV_H_

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A SweepRow as JSON and back, exact to the byte: what a sweep keeps of a configuration so that it need not run again.
// Pure functions. Reading takes any bytes: what is not a row of this version is an error that says what is wrong with
// it.
//
//   const std::string text = RowJson(row);
//   absl::StatusOr<SweepRow> same = ParseRow(text);   // or "stages[2].seconds is not a number"

#ifndef GPUMEM_PLANNER_SWEEP_ROW_JSON_H_
#define GPUMEM_PLANNER_SWEEP_ROW_JSON_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/sweep/row.h"
#include "render/document.h"

namespace gpumem::plan {

// Raised when a field is removed or changes its meaning; rows of another version are refused.
inline constexpr int kRowVersion = 1;

// One object, ended by a newline.
std::string RowJson(const SweepRow& row);

// Pieces of it, which other JSON of a sweep has too: a list of objects; {name: bytes}.
Datum StagesDatum(const SweepRow& row);
Datum BytesDatum(const std::map<std::string, uint64_t>& bytes);

// Fails with DataLoss where `text` is not JSON, lacks a field or has one of another type, and with FailedPrecondition
// where it is a row of another version.
absl::StatusOr<SweepRow> ParseRow(absl::string_view text);

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_SWEEP_ROW_JSON_H_

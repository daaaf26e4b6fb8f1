// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Lists by location, and the histogram of sizes. Pure functions; what they are given outlives the answer. `top` bounds
// lists; 0 = all.
//
//   console->Print(ToText(TableAnswer(rows, LocationKind::kLine, 20, input), console->out_style()));

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_LISTS_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "answers/views/location_table.h"
#include "answers/views/size_histogram.h"
#include "answers/views/view_input.h"
#include "render/cells.h"
#include "render/document.h"

namespace gpumem {

// Of `whole` bytes, or of `whole` things, for people alone.
template <typename Row, typename Part>
AnswerColumn<Row> ShareColumn(uint64_t whole, Part part) {
  return {"", ShareTitle(whole), Unit::kShare, "", [=](const Row& row) { return Datum::Share(part(row), whole); }};
}
template <typename Row, typename Part>
AnswerColumn<Row> CountShareColumn(uint64_t whole, Part part) {
  AnswerColumn<Row> column = ShareColumn<Row>(whole, part);
  column.title = ShareTitleOfCount(whole);
  return column;
}

// The columns of a list of lines, with shares of `whole`.
std::vector<AnswerColumn<Location>> LocationColumns(uint64_t whole);

Document TableAnswer(const std::vector<Location>& rows, LocationKind kind, size_t top, const ViewInput& input);

// Lines of code that allocate most, once in the order of bytes and once in that of counts.
struct SizesLists {
  SizeHistogram histogram;
  std::vector<Location> by_bytes, by_count;
};
Document SizesAnswer(const SizesLists& lists, size_t top, const ViewInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_LISTS_H_

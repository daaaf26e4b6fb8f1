// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/views/lists.h"
#include "base/format.h"

namespace gpumem {
namespace {

constexpr char kItself[] = "what it allocated itself";
constexpr char kWithCalls[] = "what it and all that it called allocated";

// Has a total of its own beside the weight itself.
bool HasTotal(LocationKind kind) {
  return kind != LocationKind::kThread && kind != LocationKind::kCategory && kind != LocationKind::kComponent;
}

std::vector<AnswerColumn<Location>> TableColumns(LocationKind kind, uint64_t whole) {
  const bool has_total = HasTotal(kind);
  std::vector<AnswerColumn<Location>> columns = {
      {"self_bytes", has_total ? "self" : "bytes", Unit::kBytes, kItself,
       [](const Location& row) { return row.self.bytes; }},
      ShareColumn<Location>(whole, [](const Location& row) { return row.self.bytes; }),
      {"self_count", "count", Unit::kCount, kItself, [](const Location& row) { return row.self.count; }},
      {"bytes", has_total ? "total" : "", Unit::kBytes, kWithCalls,
       [](const Location& row) { return row.total.bytes; }},
      ShareColumn<Location>(whole, [](const Location& row) { return row.total.bytes; }),
      {"count", "", Unit::kCount, kWithCalls, [](const Location& row) { return row.total.count; }},
      {"stack_count", "", Unit::kCount, "how many distinct stacks have it",
       [](const Location& row) { return row.stacks; }},
      {"name", LocationKindName(kind), Unit::kText, "of the line, function, ...; of a stack its innermost frame",
       [](const Location& row) { return row.name; }},
  };
  if (!has_total) columns[4].title.clear();
  return columns;
}

}  // namespace

std::vector<AnswerColumn<Location>> LocationColumns(uint64_t whole) { return TableColumns(LocationKind::kLine, whole); }

Document TableAnswer(const std::vector<Location>& rows, LocationKind kind, size_t top, const ViewInput& input) {
  Document answer = ViewAnswer("table", input);
  answer.Field("by", LocationKindName(kind), "what a row is ([commands/table.md](commands/table.md))");
  const size_t shown = Shown(rows.size(), top);
  Weight rest;
  for (size_t i = shown; i < rows.size(); ++i) rest.Add(rows[i].self);
  answer.Table("rows", "the largest first; of stacks one a stack", TableColumns(kind, input.aggregated->all.bytes),
               rows,
               {.count = shown,
                .layout = JsonLayout::kOneLine,
                .is_shown = !rows.empty(),
                .counts_rest = true,
                .rest = absl::StrCat(" with ", FormatBytes(rest.bytes), " of their own")});
  return answer;
}

}  // namespace gpumem

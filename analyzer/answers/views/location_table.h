// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Where memory was allocated as a flat list: by line, frame, function, file, library or thread, or by what it belongs
// to (module of the model, component, stage, category, operator: Labels says what of a stack), each with its own
// weight (self: of stacks whose line or innermost shown frame it is) and that of all stacks through it (total: once a
// stack, however often it recurs). Pure functions.
//
//   for (const Location& row : Locations(aggregated, &frames, LocationKind::kLine)) Print(row.name, row.self.bytes);

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_LOCATION_TABLE_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_LOCATION_TABLE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "answers/views/frame_table.h"
#include "ledger/stacks/aggregated_stacks.h"

namespace gpumem {

enum class LocationKind : uint8_t {
  kLine,   // the program's, as in reports and SQL: FrameTable::Lines
  kFrame,  // a line of whoever owns it, PyTorch too
  kFunction,
  kFile,
  kLibrary,  // a Python module, or a shared library
  kThread,
  // By labels:
  kModule,
  kComponent,
  kStage,
  kCategory,
  kOperator,
};
inline bool IsByLabels(LocationKind kind) { return kind >= LocationKind::kModule; }

absl::string_view LocationKindName(LocationKind kind);  // "line"
std::optional<LocationKind> ParseLocationKind(absl::string_view name);

struct Location {
  std::string name;  // as recorded: "model.py:42 Block.forward", "Block.forward (model.py)", "thread 1234 (python)"
  Weight self, total;
  uint64_t stacks = 0;  // AggregatedStacks::stacks that it is in
};

enum class LocationOrder : uint8_t { kSelf, kTotal, kCount };

// Largest first in `order` (kCount: by self.count), then by name. `frames` must not invert. Where aggregated.merged
// belongs to what is shown, one row "(smaller stacks)" has it.
std::vector<Location> Locations(const AggregatedStacks& aggregated, FrameTable* frames, LocationKind kind,
                                LocationOrder order = LocationOrder::kSelf);
// What a stack belongs to, outermost first: its weight is the last one's own. Never empty.
using Labels = std::function<std::vector<std::string>(const AggregatedStack&)>;
std::vector<Location> Locations(const AggregatedStacks& aggregated, const Labels& labels,
                                LocationOrder order = LocationOrder::kSelf);
void SortLocations(LocationOrder order, std::vector<Location>* rows);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_LOCATION_TABLE_H_

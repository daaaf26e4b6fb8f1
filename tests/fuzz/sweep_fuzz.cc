// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as what a sweep reads: its specification, conditions, axes, command lines, kept rows, and what processes of
// a planned program say. The input's first byte chooses which.

#include <cstdint>
#include <string>

#include "planner/launch/process_result.h"
#include "planner/launch/program.h"
#include "planner/sweep/constraint.h"
#include "planner/sweep/row_json.h"
#include "planner/sweep/spec.h"

namespace {

void ReadAsSpec(const std::string& text) {
  absl::StatusOr<gpumem::plan::SweepSpec> spec = gpumem::plan::ParseSpec(text, "sweep.yaml");
  if (!spec.ok()) return;
  gpumem::plan::PutConstants(&*spec).IgnoreError();
  size_t excluded = 0;
  const auto all = gpumem::plan::Configurations(*spec, &excluded);
  if (!all.ok()) return;
  for (size_t i = 0; i < all->size() && i < 10; ++i) {
    const auto command = gpumem::plan::CommandOf(*spec, (*all)[i]);
    if (command.ok()) gpumem::plan::ParsePythonCommand(command->command);
  }
}

void ReadAsConstraint(const std::string& text) {
  const auto constraint = gpumem::plan::Constraint::Parse(text);
  if (!constraint.ok()) return;
  for (const char* value : {"1", "0", "bf16", "-1e308"})
    constraint->Holds({{"a", value}, {"b", "2"}, {"c.d", value}}).IgnoreError();
}

void ReadAsRow(const std::string& text) {
  const auto row = gpumem::plan::ParseRow(text);
  if (row.ok() &&
      gpumem::plan::RowJson(*gpumem::plan::ParseRow(gpumem::plan::RowJson(*row))) != gpumem::plan::RowJson(*row))
    __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      ReadAsSpec(text);
      break;
    case 1:
      ReadAsConstraint(text);
      break;
    case 2:
      ReadAsRow(text);
      break;
    case 3:
      gpumem::plan::ParseSweepAxis(text).IgnoreError();
      gpumem::plan::SplitWords(text).IgnoreError();
      break;
    default:
      gpumem::plan::StuckAt(text);
  }
  return 0;
}

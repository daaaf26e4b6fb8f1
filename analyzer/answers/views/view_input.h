// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What every view by stack gets to print, and how each of them starts. Plain pointers; the owner outlives the
// rendering.

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_VIEW_INPUT_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_VIEW_INPUT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "answers/views/frame_table.h"
#include "ledger/load/input.h"
#include "ledger/stacks/aggregated_stacks.h"
#include "ledger/stacks/selection.h"
#include "render/document.h"

namespace gpumem {

struct ViewInput {
  ReportInput report;
  const AggregatedStacks* aggregated = nullptr;
  FrameTable* frames = nullptr;
  const StackSelection* selection = nullptr;
};

// "Peak allocated on GPU 0: 20 MiB at 8.150 s". Not escaped.
std::string ViewTitle(const ViewInput& input);

// How an answer about a view begins: program and trace, then the title, how much the filters left, what was merged, and
// which GPUs are not in it.
Document ViewAnswer(absl::string_view command, const ViewInput& input);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_VIEW_INPUT_H_

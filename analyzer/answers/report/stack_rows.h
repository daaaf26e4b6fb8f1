// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Lists of who holds memory: stacks grouped by the line of the user's code that they meet in (or each by itself),
// largest first.
//
//        bytes  share  blocks  allocated by
//    40.10 GiB   54 %   1,210  train.py:42 Block.forward  (12 stacks)
//                              aten::linear in torch/nn/modules/linear.py:134 Linear.forward
//                              <- train.py:88 GPT.forward <- train.py:130 main

#ifndef GPUMEM_ANALYZER_ANSWERS_REPORT_STACK_ROWS_H_
#define GPUMEM_ANALYZER_ANSWERS_REPORT_STACK_ROWS_H_

#include <string>
#include <vector>

#include "ledger/load/input.h"
#include "ledger/stacks/stack_view.h"
#include "render/page.h"
#include "replay/analysis.h"

namespace gpumem {

struct StackGroup {
  StackView view;  // of the largest stack
  StackUse use;    // sums; stack_id and api are the largest stack's
  size_t stacks = 0;
};

// Stacks whose frames are looked up for grouping; smaller ones go into one group "smaller stacks", so that a trace with
// very many of them is answered at once.
inline constexpr size_t kMaxStacksGrouped = 2000;

std::vector<StackGroup> GroupStacks(const std::vector<StackUse>& stacks, const ReportInput& input, bool by_stack);

struct StackListWords {
  std::string total_of;  // what the shares are of; 0 total: no share column
  uint64_t total = 0;
  std::string counted = "blocks";
  std::string who = "allocated by";
};

// Adds the largest groups, `options.top` of them (0 = all), and one line for the rest.
void AddStackRows(const std::vector<StackUse>& stacks, const StackListWords& words, const ReportInput& input,
                  const TextOptions& options, Page* page);

// A single stack, for instance of a failed request: site, through and callers under a lead text.
void AddOneStack(absl::string_view lead, uint64_t stack_id, absl::string_view api, const ReportInput& input,
                 const TextOptions& options, Page* page);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_STACK_ROWS_H_

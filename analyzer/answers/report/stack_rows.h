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

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ledger/load/input.h"
#include "ledger/stacks/stack_view.h"
#include "render/document.h"
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

// The largest of them that is a line: not what a library keeps for itself. nullptr where there is none.
const StackGroup* TopLine(const std::vector<StackGroup>& groups);

struct StackListWords {
  std::string total_of;  // what the shares are of; 0 total: no share column
  uint64_t total = 0;
  std::string counted = "blocks";
  std::string who = "allocated by";
};

// Adds the largest groups, `options.top` of them (0 = all), and one line for the rest: for people. `stacks` outlive the
// answer.
void AddStackRows(const std::vector<StackUse>& stacks, const StackListWords& words, const ReportInput& input,
                  const TextOptions& options, Document* answer);
// Keeps `stacks`.
void AddStackRows(std::vector<StackUse>&& stacks, const StackListWords& words, const ReportInput& input,
                  const TextOptions& options, Document* answer);

// A single stack, for instance of a failed request: site, through and callers under a lead text. For people.
void AddOneStack(absl::string_view lead, uint64_t stack_id, absl::string_view api, const ReportInput& input,
                 const TextOptions& options, Document* answer);

inline constexpr absl::string_view kListOfStacks = "stacks with live memory, largest first; a limit (`--top`) cuts it";
// The largest `top` (0 = all) for machines, which outlive the answer. `written`: frames of the stacks in it are not
// written again (by `hash` they are found), and those of new ones put there; nullptr: all are written.
void AddStacks(absl::string_view key, const std::vector<StackUse>& stacks, size_t top, const ReportInput& input,
               Document* answer, std::set<uint64_t>* written = nullptr, absl::string_view meaning = kListOfStacks);

// Of a stack for machines: the line that stands for it in text, its hash, and its frames, innermost first.
struct StackKey {
  uint64_t id = 0;
  absl::string_view api;  // the function that allocated
};
Datum SiteDatum(const StackKey& stack, const ReportInput& input);
Datum HashDatum(uint64_t stack_id, const ReportInput& input);
Datum FramesDatum(uint64_t stack_id, const ReportInput& input);

// These three of the rows of a table; `stack` names a row's.
template <typename Row>
void AppendStackColumns(std::function<StackKey(const Row&)> stack, const ReportInput& input,
                        std::vector<AnswerColumn<Row>>* columns) {
  columns->push_back({"site", "", Unit::kText, "the line that represents the stack in text reports",
                      [stack, &input](const Row& row) { return SiteDatum(stack(row), input); }});
  columns->push_back({"hash", "", Unit::kText,
                      "16 hexadecimal digits, equal for equal stacks of any process and run ([stacks.md](stacks.md)); "
                      "null for a stack that is not known",
                      [stack, &input](const Row& row) { return HashDatum(stack(row).id, input); }});
  columns->push_back({"frames", "", Unit::kObject, "innermost first",
                      [stack, &input](const Row& row) { return FramesDatum(stack(row).id, input); }});
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_REPORT_STACK_ROWS_H_

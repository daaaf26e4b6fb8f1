// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What keeps segments from going back to CUDA, by line of code. Pure functions of the input.
//
//   for (const PinLine& line : PinLines(device.fragmentation.groups_at_end, input)) answer->Line(PinText(line.group,
//   end_ns));

#ifndef GPUMEM_ANALYZER_ANSWERS_PARTS_PIN_LINES_H_
#define GPUMEM_ANALYZER_ANSWERS_PARTS_PIN_LINES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ledger/load/input.h"
#include "render/document.h"

namespace gpumem {

struct PinLine {
  uint64_t stack_id = 0;            // one of the line's stacks
  std::string site;                 // the line, as ViewStack names it
  std::vector<std::string> others;  // sites of the lines that keep the same segments together with this one
  PinGroup group;                   // all stacks of the line, or lines, together; `stack_ids` is empty
};

// Largest returnable first; every group is in one of them.
std::vector<PinLine> PinLines(const std::vector<PinGroup>& groups, const ReportInput& input);

// Adds `options.top` of them (0 = all) as they are at `time_ns`, and a line for the rest.
void AddPinLines(const std::vector<PinLine>& lines, uint64_t time_ns, const ReportInput& input,
                 const TextOptions& options, Document* answer);

// For machines, at most `top` of each (0 = all): such lines, and blocks of `pins`, which outlive the answer.
void AddListOfPinLines(absl::string_view key, absl::string_view meaning, const std::vector<PinGroup>& groups,
                       size_t top, const ReportInput& input, Document* answer);
void AddListOfPins(absl::string_view key, absl::string_view meaning, const std::vector<PinningBlock>& pins, size_t top,
                   const ReportInput& input, Document* answer);

// "2 MiB in 40 blocks keep 800 MiB in 40 segments (up to 1.5 s old)": how long the oldest block has been there shows
// whether the blocks are of this moment alone.
std::string PinText(const PinGroup& group, uint64_t time_ns);

// Sum over all groups, bytes.
uint64_t ReturnableBytes(const std::vector<PinGroup>& groups);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_PARTS_PIN_LINES_H_

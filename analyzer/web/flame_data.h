// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The data of a flame page, and of `gpumemshim flame --json`: columns of numbers and one table of strings, because a
// tree of 100,000 nodes as objects is several times larger and slower to read. docs/json.md describes each field;
// flame_page/ reads it.
//
//   nodes    parallel columns, node 1 first (node 0 is the root): `up` is the node's number minus its parent's, `frame`
//            a place in `frames`
//   frames   parallel columns: places in `strings`, a line (0 = not known), a kind (FrameClass; 6 = merged)
//   words    only in the page: English -> another language, of the texts that it shows (page_words.h)
//   views    rows of what ends at a node: `node` as steps from the row before, `device` and `thread` as runs (value,
//            times, value, times ...) of places in `devices` and `threads`, `bytes` and `count` as they are
//
// All text in it is safe to show: control characters, bytes that are no UTF-8 and marks that turn the writing direction
// are spelled out, long names are cut, and no `<` is left, so nothing in it can end the script that it stands in.

#ifndef GPUMEM_ANALYZER_WEB_FLAME_DATA_H_
#define GPUMEM_ANALYZER_WEB_FLAME_DATA_H_

#include <cstddef>
#include <string>
#include <vector>

#include "answers/views/frame_source.h"
#include "answers/views/frame_table.h"
#include "ledger/load/input.h"
#include "ledger/stacks/aggregated_stacks.h"
#include "ledger/stacks/selection.h"
#include "web/flame_tree.h"

namespace gpumem {

// How the page is at first; all of it can be changed there.
struct FlameStart {
  ViewMode mode = ViewMode::kPeak;
  bool invert = false, flame = false;
  std::string split;  // "", "thread", "device"
  size_t depth = 0;   // 0 = all
};

struct FlameInput {
  const ReportInput* report = nullptr;
  std::vector<const AggregatedStacks*> views;  // each mode at most once
  uint64_t temporary_threshold = 1;
  FrameTable* frames = nullptr;
  FrameSource* source = nullptr;
  FlameStart start;
  std::vector<std::string> filters;  // what was asked for that leaves something out: "--min-size 1M"
  std::string generator;             // "gpumemshim 0.1.0"
};

// The page's data: compact, and without `<`.
std::string FlameData(const FlameInput& input, const FlameTree& tree);

// The same after the members that every answer about a trace has (HeadFields).
std::string FlameJson(const FlameInput& input, const FlameTree& tree);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_FLAME_DATA_H_

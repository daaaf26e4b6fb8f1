// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a flame page says in words: what the picture is of, the moment of each view, and everything that it leaves out.
// Nothing is escaped. Pure functions.

#ifndef GPUMEM_ANALYZER_WEB_FLAME_ABOUT_H_
#define GPUMEM_ANALYZER_WEB_FLAME_ABOUT_H_

#include <string>
#include <vector>

#include "answers/report/state.h"
#include "web/flame_data.h"
#include "web/flame_tree.h"

namespace gpumem {

struct ViewWords {
  std::string label;    // "Peak"
  std::string meaning;  // what the view is, for any trace
  std::string empty;    // where there is nothing in it
  std::string one = "block", many = "blocks";
};

ViewWords WordsOf(ViewMode mode, uint64_t temporary_threshold);

// "Peak allocated on GPU 0: 8.11 GiB at 1.209 s in backward, 689 live blocks": what one view says of one GPU.
std::string MomentText(const AggregatedStacks& view, const AggregatedDevice& device, const Weight& weight,
                       const FlameInput& input);

// TraceWarnings, and what the page's filters and its size leave out. Stacks that the tree merged are numbers of each
// view.
std::vector<Remark> FlameWarnings(const FlameInput& input, const FlameTree& tree);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_FLAME_ABOUT_H_

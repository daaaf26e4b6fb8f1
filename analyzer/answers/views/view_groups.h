// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ViewGroups: what a stack belongs to: what --by module|stage|category puts at the root of a view, and, with component
// and operator, what rows of a table stand for. All but the stages that the program named are told by the stack.
// A category is a block's: where all blocks of a stack at the view's instant have one category, or the view has
// all of them, entries are divided exactly; else they are "several categories". Of views over time (total, temporary)
// no category is shown. Not thread-safe; the trace must outlive it.
//
//   ViewGroups groups("stage", loaded.get());
//   GPUMEM_RETURN_IF_ERROR(groups.Divide(&aggregated));
//   rules.group = [&](const AggregatedStack& stack) { return groups.Labels(stack); };

#ifndef GPUMEM_ANALYZER_ANSWERS_VIEWS_VIEW_GROUPS_H_
#define GPUMEM_ANALYZER_ANSWERS_VIEWS_VIEW_GROUPS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ledger/attribution/module_table.h"
#include "ledger/attribution/rules.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/load/load_trace.h"
#include "ledger/stacks/aggregated_stacks.h"

namespace gpumem {

struct Attribution;
struct Moment;

class ViewGroups {
 public:
  ViewGroups(std::string by, LoadedTrace* loaded);

  // Sets AggregatedStack::group. An error where the trace cannot be read again.
  absl::Status Divide(AggregatedStacks* aggregated);

  // Outermost first: "train", "forward".
  std::vector<std::string> Labels(const AggregatedStack& stack);
  // The same for rows that stand alone: "train", "train > forward".
  std::vector<std::string> RowLabels(const AggregatedStack& stack);

 private:
  std::vector<std::string> ModuleLabels(uint64_t stack_id);
  std::string ComponentLabel(const AggregatedStack& stack);
  std::vector<std::string> OperatorLabels(uint64_t stack_id);
  void NumberStages(AggregatedStacks* aggregated);
  void DivideByComponent(const Attribution& attribution, AggregatedStacks* aggregated);

  std::string by_;
  std::vector<std::string> user_stages_{""};  // of all views
  std::vector<std::string> components_;       // of group 1, 2, ...
  LoadedTrace* loaded_;
  Rules rules_;
  StackClassifier classifier_;
  ModuleTable modules_;
};

// Divides the entries of a device by the categories that their stacks' blocks have at the moment; groups are those of
// CategoryGroupLabel.
void DivideByCategory(const Moment& moment, int device, AggregatedStacks* aggregated);
std::string CategoryGroupLabel(uint32_t group);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_VIEWS_VIEW_GROUPS_H_

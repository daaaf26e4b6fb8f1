// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/view_groups.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "answers/parts/attribution_parts.h"
#include "base/status_macros.h"
#include "ledger/attribution/attribution.h"
#include "ledger/attribution/component.h"
#include "ledger/load/attribute.h"
#include "ledger/stacks/frame_class.h"

namespace gpumem {
namespace {

// Groups beside the categories themselves, which are their number + 1.
constexpr uint32_t kNotClassified = 0, kSeveral = UINT32_MAX;

using GroupOf = std::function<uint32_t(const AttributedUse&)>;  // from 1
using Parts = std::map<uint32_t, Weight>;                       // by group

std::map<uint64_t, Parts> PartsByStack(const Moment& moment, const GroupOf& group_of) {
  std::map<uint64_t, Parts> parts;
  for (const AttributedUse& use : moment.uses) parts[use.stack_id][group_of(use)].Add({use.bytes, use.count});
  return parts;
}

bool OnlyAllocates(absl::string_view name) {
  return absl::StartsWith(name, "aten::empty") || absl::StartsWith(name, "aten::new_empty") || name == "aten::resize_";
}

void DivideEntry(const AggregatedStack& stack, const Parts& parts, std::vector<AggregatedStack>* divided) {
  Weight all;
  for (const auto& [group, weight] : parts) all.Add(weight);
  if (parts.size() < 2 || !(all == stack.weight)) {
    divided->push_back(stack);
    divided->back().group = parts.size() == 1 ? parts.begin()->first : parts.empty() ? kNotClassified : kSeveral;
    return;
  }
  for (const auto& [group, weight] : parts) {
    divided->push_back(stack);
    divided->back().weight = weight;
    divided->back().group = group;
  }
}

void Divide(const Moment& moment, int device, const GroupOf& group_of, AggregatedStacks* aggregated) {
  const std::map<uint64_t, Parts> parts = PartsByStack(moment, group_of);
  std::vector<AggregatedStack> divided;
  for (const AggregatedStack& stack : aggregated->stacks) {
    const auto found = stack.device == device ? parts.find(stack.stack_id) : parts.end();
    if (found == parts.end()) {
      divided.push_back(stack);
    } else {
      DivideEntry(stack, found->second, &divided);
    }
  }
  std::stable_sort(divided.begin(), divided.end(),
                   [](const AggregatedStack& a, const AggregatedStack& b) { return a.weight.bytes > b.weight.bytes; });
  aggregated->stacks = std::move(divided);
}

}  // namespace

ViewGroups::ViewGroups(std::string by, LoadedTrace* loaded)
    : by_(std::move(by)),
      loaded_(loaded),
      classifier_(&loaded->stacks, &rules_, ResolverOf(loaded)),
      modules_(&loaded->stacks.objects(), &rules_) {}

void DivideByCategory(const Moment& moment, int device, AggregatedStacks* aggregated) {
  gpumem::Divide(
      moment, device, [](const AttributedUse& use) { return static_cast<uint32_t>(use.category) + 1; }, aggregated);
}

std::string CategoryGroupLabel(uint32_t group) {
  if (group == kNotClassified) return "category unknown";
  if (group == kSeveral) return "several categories";
  return std::string(CategoryTitle(static_cast<Category>(group - 1)));
}

void ViewGroups::DivideByComponent(const Attribution& attribution, AggregatedStacks* aggregated) {
  const auto group_of = [&](const AttributedUse& use) {
    const std::string name = ComponentName(use, attribution);
    const auto known = std::find(components_.begin(), components_.end(), name);
    if (known == components_.end()) components_.push_back(name);
    return static_cast<uint32_t>(std::find(components_.begin(), components_.end(), name) - components_.begin()) + 1;
  };
  gpumem::Divide(attribution.moments.front(), attribution.device, group_of, aggregated);
}

// Each view numbers them for itself.
void ViewGroups::NumberStages(AggregatedStacks* aggregated) {
  std::vector<uint32_t> numbers;
  for (const std::string& name : aggregated->user_stages) {
    const auto known = std::find(user_stages_.begin(), user_stages_.end(), name);
    numbers.push_back(static_cast<uint32_t>(known - user_stages_.begin()));
    if (known == user_stages_.end()) user_stages_.push_back(name);
  }
  for (AggregatedStack& stack : aggregated->stacks) stack.group = numbers[stack.group];
}

absl::Status ViewGroups::Divide(AggregatedStacks* aggregated) {
  if (by_ == "stage") NumberStages(aggregated);
  const DeviceAnalysis* const device = LargestDevice(loaded_->analysis);
  const bool is_instant = aggregated->mode == ViewMode::kPeak || aggregated->mode == ViewMode::kLeaks;
  const bool is_of_blocks = by_ == "category" || by_ == "component";
  if (!is_of_blocks || !is_instant || device == nullptr) return absl::OkStatus();
  AttributionRequest request;
  MomentQuery& query = request.moments.emplace_back();
  query.number = aggregated->mode == ViewMode::kPeak ? PeakOf(*device, DefaultMeasure(*device)).event_index
                                                     : device->leaks.at_end_torch.event_index;
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Attribution> attribution, AttributeLoaded(request, "", loaded_));
  loaded_->input.attribution = nullptr;  // it ends here
  if (!attribution->moments.front().found) return absl::OkStatus();
  if (by_ == "category") {
    DivideByCategory(attribution->moments.front(), attribution->device, aggregated);
  } else {
    DivideByComponent(*attribution, aggregated);
  }
  return absl::OkStatus();
}

std::vector<std::string> ViewGroups::ModuleLabels(uint64_t stack_id) {
  std::vector<std::string> labels;
  const std::vector<uint32_t> path = classifier_.ModulePath(stack_id);
  for (auto module = path.rbegin(); module != path.rend(); ++module)
    labels.push_back(ModuleLabel(modules_.row(modules_.RowOf(*module))));
  if (labels.empty()) labels.push_back("(no module)");
  return labels;
}

// Of an instant that of the blocks, which know the module that holds a parameter; else what the stack says.
std::string ViewGroups::ComponentLabel(const AggregatedStack& stack) {
  if (stack.group == kSeveral) return "several components";
  if (stack.group != kNotClassified) return components_[stack.group - 1];
  const StackClassification classification = classifier_.Of(stack.stack_id);
  const std::string& component = modules_.row(modules_.RowOf(classification.module)).component;
  const Category category = classification.category.value_or(Category::kUnknown);
  return std::string(ComponentOf(component, classification.is_loss, category, classification.stage));
}

// Most operators make their result by another one that only allocates: it is shown where there is no other.
std::vector<std::string> ViewGroups::OperatorLabels(uint64_t stack_id) {
  std::vector<std::string> labels;
  std::string allocates;
  const std::vector<uint32_t> frames = loaded_->stacks.Frames(stack_id);
  for (auto id = frames.rbegin(); id != frames.rend(); ++id) {
    const std::vector<ResolvedFrame>& resolved = loaded_->symbolizer->ResolveFrame(*id);
    for (auto frame = resolved.rbegin(); frame != resolved.rend(); ++frame) {
      if (frame->forward && !labels.empty()) labels.clear();  // of the forward pass: not what ran
      const std::string name = frame->python ? "" : AtenOperator(frame->function);
      if (name.empty()) continue;
      if (OnlyAllocates(name)) {
        allocates = name;
      } else if (labels.empty() || labels.back() != name) {
        labels.push_back(name);
      }
    }
  }
  if (labels.empty()) labels.push_back(allocates.empty() ? "(no operator)" : allocates);
  return labels;
}

std::vector<std::string> ViewGroups::Labels(const AggregatedStack& stack) {
  if (by_ == "module") return ModuleLabels(stack.stack_id);
  if (by_ == "component") return {ComponentLabel(stack)};
  if (by_ == "operator") return OperatorLabels(stack.stack_id);
  if (by_ == "category") return {CategoryGroupLabel(stack.group)};
  return absl::StrSplit(StagePathTitle(user_stages_[stack.group], classifier_.Of(stack.stack_id).stage), " > ");
}

std::vector<std::string> ViewGroups::RowLabels(const AggregatedStack& stack) {
  std::vector<std::string> labels = Labels(stack);
  if (by_ != "stage") return labels;
  for (size_t i = 1; i < labels.size(); ++i) labels[i] = absl::StrCat(labels[i - 1], " > ", labels[i]);
  return labels;
}

}  // namespace gpumem

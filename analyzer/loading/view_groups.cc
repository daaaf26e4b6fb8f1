// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "loading/view_groups.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "attribution/attribution.h"
#include "base/status_macros.h"
#include "loading/attribute.h"
#include "report/attribution_parts.h"
#include "report/frame_class.h"

namespace gpumem {
namespace {

// Groups beside the categories themselves, which are their number + 1.
constexpr uint32_t kNotClassified = 0, kSeveral = kCategories + 1;

uint32_t GroupOf(size_t category) { return static_cast<uint32_t>(category) + 1; }

using Parts = std::array<Weight, kCategories>;

std::map<uint64_t, Parts> PartsByStack(const Moment& moment) {
  std::map<uint64_t, Parts> parts;
  for (const AttributedUse& use : moment.uses) parts[use.stack_id][Index(use.category)].Add({use.bytes, use.count});
  return parts;
}

bool OnlyAllocates(absl::string_view name) {
  return absl::StartsWith(name, "aten::empty") || absl::StartsWith(name, "aten::new_empty") || name == "aten::resize_";
}

void DivideEntry(const AggregatedStack& stack, const Parts& parts, std::vector<AggregatedStack>* divided) {
  Weight all;
  size_t sorts = 0;
  uint32_t last = kNotClassified;
  for (size_t category = 0; category < kCategories; ++category) {
    if (parts[category].count == 0) continue;
    all.Add(parts[category]);
    ++sorts;
    last = GroupOf(category);
  }
  if (sorts < 2 || !(all == stack.weight)) {
    divided->push_back(stack);
    divided->back().group = sorts < 2 ? last : kSeveral;
    return;
  }
  for (size_t category = 0; category < kCategories; ++category) {
    if (parts[category].count == 0) continue;
    divided->push_back(stack);
    divided->back().weight = parts[category];
    divided->back().group = GroupOf(category);
  }
}

}  // namespace

ViewGroups::ViewGroups(std::string by, LoadedTrace* loaded)
    : by_(std::move(by)),
      loaded_(loaded),
      classifier_(&loaded->stacks, &rules_, ResolverOf(loaded)),
      modules_(&loaded->stacks.objects(), &rules_) {}

void DivideByCategory(const Moment& moment, int device, AggregatedStacks* aggregated) {
  const std::map<uint64_t, Parts> parts = PartsByStack(moment);
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

std::string CategoryGroupLabel(uint32_t group) {
  if (group == kNotClassified) return "category unknown";
  if (group == kSeveral) return "several categories";
  return std::string(CategoryTitle(static_cast<Category>(group - 1)));
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
  if (by_ != "category" || !is_instant || device == nullptr) return absl::OkStatus();
  AttributionRequest request;
  MomentQuery& query = request.moments.emplace_back();
  query.number = aggregated->mode == ViewMode::kPeak ? PeakOf(*device, DefaultMeasure(*device)).event_index
                                                     : device->leaks.at_end_torch.event_index;
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Attribution> attribution, AttributeLoaded(request, "", loaded_));
  loaded_->input.attribution = nullptr;  // it ends here
  if (attribution->moments.front().found)
    DivideByCategory(attribution->moments.front(), attribution->device, aggregated);
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

std::string ViewGroups::ComponentLabel(uint64_t stack_id) {
  const uint32_t module = classifier_.Of(stack_id).module;
  return module == 0 ? "(no module)" : modules_.row(modules_.RowOf(module)).component;
}

// Most operators make their result by another one that only allocates: it is told where there is no other.
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
  if (by_ == "component") return {ComponentLabel(stack.stack_id)};
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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/model_parts.h"

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

void Add(const ParameterRow& row, const TensorInfo& tensor, ParameterSums* sums) {
  sums->parameters += tensor.elements;
  sums->parameter_bytes += row.bytes;
  if (tensor.trainable) {
    sums->trainable_parameters += tensor.elements;
    sums->trainable_bytes += row.bytes;
  }
  sums->gradient_bytes += row.gradient_bytes;
  sums->state_bytes += row.state_bytes;
}

}  // namespace

double ParameterSums::TrainablePercent() const {
  return parameters == 0 ? 0 : 100 * static_cast<double>(trainable_parameters) / static_cast<double>(parameters);
}

const std::string& ComponentOf(const ParameterRow& parameter, const Attribution& attribution) {
  return attribution.modules[parameter.module].component;
}

ModelTotals TotalsOf(const Attribution& attribution, const ObjectTable& objects) {
  ModelTotals totals;
  for (const ParameterRow& row : attribution.parameters) {
    const TensorInfo* const tensor = objects.tensor(row.tensor);
    if (tensor == nullptr) continue;
    Add(row, *tensor, &totals.all);
    if (tensor->name.find("lora_") != std::string::npos) Add(row, *tensor, &totals.lora);
    Add(row, *tensor, &totals.by_component[ComponentOf(row, attribution)]);
    Add(row, *tensor, &totals.by_type[tensor->dtype]);
    Add(row, *tensor, &totals.by_device[tensor->device]);
    if (tensor->group == 0) continue;
    const std::string group = absl::StrCat(objects.optimizer_class(tensor->optimizer), " ", tensor->group - 1);
    Add(row, *tensor, &totals.by_optimizer_group[group]);
    const auto optimizer = objects.optimizers().find(tensor->optimizer);
    if (optimizer == objects.optimizers().end()) continue;
    const auto set = optimizer->second.groups.find(tensor->group);
    OptimizerGroupInfo settings;
    if (set != optimizer->second.groups.end()) settings = set->second;
    const auto [known, is_new] = totals.optimizer_settings.try_emplace(group, settings);
    if (!is_new && known->second != settings) known->second = {};
  }
  return totals;
}

}  // namespace gpumem

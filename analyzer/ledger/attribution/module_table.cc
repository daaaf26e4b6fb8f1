// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/module_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ledger/attribution/component.h"

namespace gpumem {
namespace {

constexpr absl::string_view kWeight = ".weight";

// Parts of something larger: what they are in says more, where that has a name.
bool IsGeneric(absl::string_view component) {
  constexpr absl::string_view kGeneric[] = {"linear", "dropout", "nonlinearity", kOtherComponent};
  return std::find(std::begin(kGeneric), std::end(kGeneric), component) != std::end(kGeneric);
}

}  // namespace

std::string ModuleText(const ModuleRow& row) {
  if (!row.fqn.empty() || row.class_name.empty()) return row.fqn;
  return absl::StrCat("(", row.class_name, ")");
}

ModuleTable::ModuleTable(const ObjectTable* objects, const Rules* rules) : objects_(objects), rules_(rules) {
  rows_[0].component = "other";
  for (const auto& [id, module] : objects_->modules()) {
    if (module.root == 0) continue;
    modules_.try_emplace({module.root, module.name}, id);
    for (const std::string& name : module.other_names) modules_.try_emplace({module.root, name}, id);
  }
}

uint32_t ModuleTable::RowAt(uint32_t root, const std::string& name, absl::string_view class_name) {
  const auto [it, is_new] = places_.try_emplace({root, name}, static_cast<uint32_t>(rows_.size()));
  if (!is_new) return it->second;
  ModuleRow& row = rows_.emplace_back();
  row.root = root;
  row.class_name = std::string(class_name);
  if (root != 0) {
    row.fqn = name;
    if (const NnModuleInfo* const top = objects_->module(root)) row.root_class = top->class_name;
  }
  row.component = ComponentOfRow(row);
  return it->second;
}

// By its own class and name; of a part, by the nearest module around it that has a component of its own.
std::string ModuleTable::ComponentOfRow(const ModuleRow& row) {
  const std::string& own = rules_->ComponentOf(row.class_name, row.fqn);
  if (row.root == 0 || !IsGeneric(own)) return own;
  std::string name = row.fqn;
  while (!name.empty()) {
    const size_t dot = name.rfind('.');
    name.resize(dot == std::string::npos ? 0 : dot);
    const auto around = modules_.find({row.root, name});
    if (around == modules_.end()) continue;
    const std::string& component = rules_->ComponentOf(objects_->module(around->second)->class_name, name);
    if (component == kBlockComponent) return own == kOtherComponent ? component : own;
    if (!IsGeneric(component)) return component;
  }
  if (own == "linear" && HasShapeOfEmbedding(row)) return "head";
  return own == kOtherComponent ? std::string(kRootComponent) : own;
}

// A linear layer with a weight like an embedding's maps back to the vocabulary.
bool ModuleTable::HasShapeOfEmbedding(const ModuleRow& row) {
  if (!knows_shapes_) {
    knows_shapes_ = true;
    for (const auto& [id, tensor] : objects_->tensors()) {
      if (tensor.role != TensorRole::kParameter || !absl::EndsWith(tensor.name, kWeight)) continue;
      const auto holder = modules_.find({tensor.root, tensor.name.substr(0, tensor.name.size() - kWeight.size())});
      if (holder == modules_.end()) continue;
      const std::string& class_name = objects_->module(holder->second)->class_name;
      if (rules_->ComponentOf(class_name, "") == "embedding") embeddings_.insert({tensor.root, tensor.shape});
      weights_[{tensor.root, holder->first.second}] = tensor.shape;
    }
  }
  const auto weight = weights_.find({row.root, row.fqn});
  return weight != weights_.end() && embeddings_.count({row.root, weight->second}) != 0;
}

uint32_t ModuleTable::RowOf(uint32_t nn_module) {
  if (nn_module == 0) return 0;
  const auto [it, is_new] = of_module_.try_emplace(nn_module, 0);
  if (!is_new) return it->second;
  const NnModuleInfo* const module = objects_->module(nn_module);
  if (module == nullptr) return 0;
  return it->second = RowAt(module->root, module->root == 0 ? module->class_name : module->name, module->class_name);
}

uint32_t ModuleTable::OwnerOf(uint32_t tensor) {
  const auto [it, is_new] = of_tensor_.try_emplace(tensor, 0);
  if (!is_new) return it->second;
  const TensorInfo* info = objects_->tensor(tensor);
  if (info != nullptr && info->of != 0) info = objects_->tensor(info->of);
  const bool is_held = info != nullptr && (info->role == TensorRole::kParameter || info->role == TensorRole::kBuffer);
  if (!is_held || info->root == 0) return 0;
  const size_t dot = info->name.rfind('.');
  const std::string owner = dot == std::string::npos ? "" : info->name.substr(0, dot);
  const auto known = modules_.find({info->root, owner});
  const uint32_t holder = known != modules_.end() ? RowOf(known->second) : RowAt(info->root, owner, "");
  return it->second = info->role == TensorRole::kParameter ? RowOfPart(holder, *info) : holder;
}

// Of parameters that one module holds itself those with an adapter's name are its adapter, and frozen ones without it
// the base model's.
uint32_t ModuleTable::RowOfPart(uint32_t holder, const TensorInfo& parameter) {
  static constexpr absl::string_view kLora = "lora";
  ModuleRow part = rows_[holder];
  const std::string& by_name = rules_->ComponentOf("", parameter.name);
  const bool is_base = part.component == kLora && !parameter.trainable;
  if (by_name == part.component || (by_name != kLora && !is_base)) return holder;
  part.component = by_name;
  const auto [it, is_new] = parts_.try_emplace({holder, by_name}, static_cast<uint32_t>(rows_.size()));
  if (is_new) rows_.push_back(std::move(part));
  return it->second;
}

Part ModuleTable::PartOf(uint32_t tensor, Category category) const {
  const TensorInfo* const info = objects_->tensor(tensor);
  if (info == nullptr) return Part::kWhole;
  if (category == Category::kParameter && info->role == TensorRole::kParameter)
    return info->trainable ? Part::kTrainable : Part::kFrozen;
  // The attribute in which Opacus keeps them.
  const bool is_per_sample = category == Category::kGradient && info->name == "grad_sample";
  return is_per_sample ? Part::kPerSample : Part::kWhole;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/row_texts.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "gpumem/trace.pb.h"
#include "ledger/attribution/category.h"
#include "ledger/attribution/stage.h"
#include "ledger/stacks/names.h"
#include "ledger/stacks/stack_view.h"

namespace gpumem {
namespace {

constexpr RowTexts::StackTexts kNoStack;
constexpr RowTexts::ModuleTexts kNoModule;

}  // namespace

void RowTexts::Finish(const std::vector<std::string>& user_stages) {
  for (int kind = 0; kind <= trace::EventKind_MAX; ++kind) {
    const bool is_known = trace::EventKind_IsValid(kind) && kind != 0;
    kind_texts_.push_back(
        is_known ? kinds_.Add(absl::AsciiStrToLower(trace::EventKind_Name(static_cast<trace::EventKind>(kind))))
                 : Dictionary::kNone);
  }
  for (uint8_t layer = 1; layer <= 3; ++layer) layers_.Add(LayerName(layer));
  for (uint8_t memory = 0; memory <= 9; ++memory) memories_.Add(MemoryName(memory));
  for (size_t i = 0; i < kCategories; ++i) categories_.Add(CategoryName(static_cast<Category>(i)));
  for (size_t i = 0; i < kEvidences; ++i) evidences_.Add(EvidenceName(static_cast<Evidence>(i)));
  for (size_t i = 0; i < kParts; ++i) parts_.Add(PartName(static_cast<Part>(i)));
  for (size_t i = 0; i < kStages; ++i) stages_.Add(StageName(static_cast<Stage>(i)));
  for (const std::string& stage : user_stages) user_stage_texts_.push_back(user_stages_.Add(stage));
  for (auto& [api, number] : apis_) number = api_names_.Add(loaded_->stacks.string(api));

  const std::vector<uint64_t> stacks = Stacks();
  for (const uint64_t stack : stacks) modules_->RowOf(classifier_->Of(stack).module);
  for (const auto& [id, tensor] : loaded_->stacks.objects().tensors()) modules_->OwnerOf(id);
  for (uint32_t row = 0; row < modules_->size(); ++row) {
    const ModuleRow& module = modules_->row(row);
    module_texts_.push_back(row == 0 ? kNoModule
                                     : ModuleTexts{module_names_.Add(ModuleText(module)),
                                                   classes_.Add(module.class_name), components_.Add(module.component)});
  }
  for (const uint64_t stack : stacks) {
    const StackClassification classification = classifier_->Of(stack);
    const StackView view = ViewStack(loaded_->source->Frames(stack), "", loaded_->analysis.process.working_directory);
    StackTexts& texts = stack_texts_[stack];
    texts.line = lines_.Add(view.site);
    texts.module = OfModule(modules_->RowOf(classification.module)).name;
    texts.stage = static_cast<uint32_t>(classification.stage);
    texts.recomputed = classification.recomputed;
  }
}

const RowTexts::StackTexts& RowTexts::OfStack(uint64_t stack) const {
  const auto found = stack_texts_.find(stack);
  return found == stack_texts_.end() ? kNoStack : found->second;
}

const RowTexts::ModuleTexts& RowTexts::OfModule(uint32_t row) const {
  return row < module_texts_.size() ? module_texts_[row] : kNoModule;
}

uint32_t RowTexts::OfApi(uint32_t api) const {
  const auto found = apis_.find(api);
  return found == apis_.end() ? Dictionary::kNone : found->second;
}

uint32_t RowTexts::OfUserStage(uint32_t number) const {
  return number < user_stage_texts_.size() ? user_stage_texts_[number] : Dictionary::kNone;
}

uint32_t RowTexts::OfKind(uint32_t kind) const {
  return kind < kind_texts_.size() ? kind_texts_[kind] : Dictionary::kNone;
}

std::vector<uint64_t> RowTexts::Stacks() const {
  std::vector<uint64_t> stacks(stacks_.begin(), stacks_.end());
  std::sort(stacks.begin(), stacks.end());
  return stacks;
}

TableWriter::Dictionaries RowTexts::dictionaries() const {
  return {{"kind", &kinds_},
          {"layer", &layers_},
          {"memory", &memories_},
          {"api", &api_names_},
          {"category", &categories_},
          {"evidence", &evidences_},
          {"part", &parts_},
          {"module", &module_names_},
          {"module_class", &classes_},
          {"component", &components_},
          {"stage", &stages_},
          {"user_stage", &user_stages_},
          {"line", &lines_}};
}

}  // namespace gpumem

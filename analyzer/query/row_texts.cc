// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/row_texts.h"

#include <algorithm>

#include "gpumem/trace.pb.h"
#include "ledger/attribution/category.h"
#include "ledger/attribution/module_table.h"
#include "ledger/attribution/stack_classification.h"
#include "ledger/attribution/stage.h"
#include "ledger/stacks/names.h"
#include "ledger/stacks/stack_view.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr RowTexts::StackTexts kNoStack;
constexpr RowTexts::ModuleTexts kNoModule;

}  // namespace

RowTexts::RowTexts(LoadedTrace* loaded, const LivesFacts* facts) : loaded_(loaded), facts_(facts) {
  AddFixed();
  for (const std::string& stage : facts->user_stages) user_stage_texts_.push_back(user_stages_.Add(stage));
  for (const uint32_t api : facts->apis) apis_[api] = api_names_.Add(loaded->stacks.string(api));
  AddModules();
}

void RowTexts::AddFixed() {
  constexpr int kLastKind = std::max<int>(trace::EventKind_MAX, kTorchReserved);
  for (int kind = 0; kind <= kLastKind; ++kind) {
    const bool is_known = kind == kTorchFreeCompleted || kind == kTorchReserved || trace::EventKind_IsValid(kind);
    kind_texts_.push_back(is_known && kind != 0 ? kinds_.Add(EventKindName(static_cast<uint32_t>(kind)))
                                                : Dictionary::kNone);
  }
  for (uint8_t layer = 1; layer <= 3; ++layer) layers_.Add(LayerName(layer));
  for (uint8_t memory = 0; memory <= 9; ++memory) memories_.Add(MemoryName(memory));
  for (size_t i = 0; i < kCategories; ++i) categories_.Add(CategoryName(static_cast<Category>(i)));
  for (size_t i = 0; i < kEvidences; ++i) evidences_.Add(EvidenceName(static_cast<Evidence>(i)));
  for (size_t i = 0; i < kParts; ++i) part_texts_.push_back(parts_.Add(PartName(static_cast<Part>(i))));  // whole: NULL
  for (size_t i = 0; i < kStages; ++i) stages_.Add(StageName(static_cast<Stage>(i)));
}

// An ENUM must know every text before the first row: all modules that a life can name, not those that lives name.
void RowTexts::AddModules() {
  const ObjectTable& objects = loaded_->stacks.objects();
  const Rules rules;
  StackClassifier classifier(&loaded_->stacks, &rules, ResolverOf(loaded_));
  ModuleTable modules(&objects, &rules);
  for (const auto& [id, module] : objects.modules()) modules.RowOf(id);
  for (const uint64_t stack : facts_->stacks) modules.RowOf(classifier.Of(stack).module);
  for (const auto& [id, tensor] : objects.tensors()) modules.OwnerOf(id);
  for (uint32_t row = 1; row < modules.size(); ++row) {
    module_names_.Add(ModuleText(modules.row(row)));
    classes_.Add(modules.row(row).class_name);
    components_.Add(modules.row(row).component);
  }
  for (const uint64_t stack : facts_->stacks) {
    const StackClassification classification = classifier.Of(stack);
    const StackView view = ViewStack(loaded_->source->Frames(stack), "", loaded_->analysis.process.working_directory);
    StackTexts& texts = stack_texts_[stack];
    texts.line = lines_.Add(view.site);
    const uint32_t row = modules.RowOf(classification.module);
    if (row != 0) texts.module = module_names_.Find(ModuleText(modules.row(row)));
    texts.stage = static_cast<uint32_t>(classification.stage);
    texts.recomputed = classification.recomputed;
  }
}

const RowTexts::StackTexts& RowTexts::OfStack(uint64_t stack) const {
  const auto found = stack_texts_.find(stack);
  return found == stack_texts_.end() ? kNoStack : found->second;
}

const RowTexts::ModuleTexts& RowTexts::OfModule(uint32_t row) {
  if (row == 0 || row >= facts_->modules.size()) return kNoModule;
  while (module_texts_.size() <= row) {
    const ModuleRow& module = facts_->modules[module_texts_.size()];
    module_texts_.push_back(
        {module_names_.Find(ModuleText(module)), classes_.Find(module.class_name), components_.Find(module.component)});
  }
  return module_texts_[row];
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

void RowTexts::WriteStep(uint64_t event, TableWriter* writer) const {
  const Step* const step = StepAt(facts_->steps, event);
  step == nullptr ? writer->Null() : writer->UInt(step->number);
}

uint32_t RowTexts::ThreadOf(uint32_t thread) const {
  const ThreadInfo* const info = loaded_->stacks.thread(thread);
  return info != nullptr ? info->tid : thread;
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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "export/block_categories.h"

namespace gpumem {

class BlockCategories::Pass final : public LifePass {
 public:
  Pass(const LifePass::Needs& needs, std::vector<Category>* by_event) : LifePass(needs), by_event_(by_event) {}

 private:
  bool IsWanted(const Life& life) const override { return life.kind == LifeKind::kBlock; }
  void Lived(const Life& life, const AttributedUse& use) override {
    if (life.born >= by_event_->size()) by_event_->resize(life.born + 1, Category::kUnknown);
    (*by_event_)[life.born] = use.category;
  }

  std::vector<Category>* by_event_;
};

BlockCategories::BlockCategories(LoadedTrace* loaded) : LivesAnalysis(loaded) {}

BlockCategories::~BlockCategories() = default;

LabelVisitor* BlockCategories::Second(const LifePass::Needs& needs) {
  pass_ = std::make_unique<Pass>(needs, &by_event_);
  return pass_.get();
}

void BlockCategories::EndSecond() { pass_.reset(); }

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/module_table.h"

#include <gtest/gtest.h>

#include "gpumem/trace.pb.h"

namespace gpumem {
namespace {

class ModuleTableTest : public ::testing::Test {
 protected:
  void Module(uint32_t id, uint32_t root, const std::string& name, const std::string& class_name) {
    trace::Definitions definitions;
    trace::NnModule* const module = definitions.add_nn_modules();
    module->set_id(id);
    module->set_root(root);
    module->set_name(name);
    module->set_class_name(class_name);
    ASSERT_TRUE(objects_.Add(definitions).ok());
  }
  void Tensor(uint32_t id, trace::TensorRole role, const std::string& name, uint32_t root, uint32_t of = 0,
              const std::vector<uint64_t>& shape = {}) {
    trace::Definitions definitions;
    trace::Tensor* const tensor = definitions.add_tensors();
    tensor->set_id(id);
    tensor->set_role(role);
    tensor->set_name(name);
    tensor->set_root(root);
    tensor->set_of(of);
    for (const uint64_t size : shape) tensor->add_shape(size);
    ASSERT_TRUE(objects_.Add(definitions).ok());
  }

  ObjectTable objects_;
  Rules rules_;
};

TEST_F(ModuleTableTest, OneRowForAPlaceInAModel) {
  Module(1, 1, "", "GPT");
  Module(2, 1, "h.0.attn", "GPT2Attention");
  Module(3, 9, "h.0.attn", "GPT2Attention");
  ModuleTable table(&objects_, &rules_);
  EXPECT_EQ(table.RowOf(2), table.RowOf(2));
  EXPECT_NE(table.RowOf(2), table.RowOf(3)) << "of another model";
  EXPECT_EQ(table.row(table.RowOf(2)).component, "attention");
  EXPECT_EQ(table.row(table.RowOf(2)).root_class, "GPT");
  EXPECT_EQ(table.row(table.RowOf(1)).fqn, "");
  EXPECT_EQ(table.RowOf(0), 0u);
  EXPECT_EQ(table.RowOf(77), 0u) << "never defined";
}

TEST_F(ModuleTableTest, APartHasTheComponentOfWhatItIsIn) {
  Module(1, 1, "", "GPT");
  Module(2, 1, "blocks.0", "Block");
  Module(3, 1, "blocks.0.at", "CausalSelfAttention");
  Module(4, 1, "blocks.0.at.qkv", "Linear");
  Module(5, 1, "blocks.0.up", "Linear");
  Module(6, 1, "blocks.0.act", "GELU");
  Module(7, 1, "blocks.0.seq", "Sequential");
  Module(8, 1, "blocks", "ModuleList");
  Module(9, 1, "encoder.layer.0.output.dense", "Linear");
  Module(10, 1, "model.lm_head", "Linear");
  Module(11, 1, "criterion", "CrossEntropyLoss");
  ModuleTable table(&objects_, &rules_);
  const auto component = [&](uint32_t module) { return table.row(table.RowOf(module)).component; };
  EXPECT_EQ(component(1), "root");
  EXPECT_EQ(component(2), "block");
  EXPECT_EQ(component(4), "attention");
  EXPECT_EQ(component(5), "linear");
  EXPECT_EQ(component(6), "nonlinearity");
  EXPECT_EQ(component(7), "block");
  EXPECT_EQ(component(8), "root");
  EXPECT_EQ(component(9), "linear") << "an output inside a layer is not a head";
  EXPECT_EQ(component(10), "head");
  EXPECT_EQ(component(11), "loss");
}

TEST_F(ModuleTableTest, ALinearLayerBackToTheVocabularyIsTheHead) {
  Module(1, 1, "", "GPT");
  Module(2, 1, "tokens", "Embedding");
  Module(3, 1, "unembed", "Linear");
  Module(4, 1, "project", "Linear");
  Tensor(10, trace::PARAMETER, "tokens.weight", 1, 0, {8192, 256});
  Tensor(11, trace::PARAMETER, "unembed.weight", 1, 0, {8192, 256});
  Tensor(12, trace::PARAMETER, "project.weight", 1, 0, {256, 256});
  ModuleTable table(&objects_, &rules_);
  EXPECT_EQ(table.row(table.RowOf(3)).component, "head");
  EXPECT_EQ(table.row(table.RowOf(4)).component, "linear");
}

TEST_F(ModuleTableTest, ObjectsWithoutAModelAreOneRowAClass) {
  Module(1, 0, "", "GELU");
  Module(2, 0, "", "GELU");
  ModuleTable table(&objects_, &rules_);
  EXPECT_EQ(table.RowOf(1), table.RowOf(2));
  EXPECT_EQ(table.row(table.RowOf(1)).root, 0u);
}

TEST_F(ModuleTableTest, TensorsBelongToTheHolderOfTheirParameter) {
  Module(1, 1, "", "GPT");
  Module(2, 1, "h.0.mlp", "MLP");
  Tensor(10, trace::PARAMETER, "h.0.mlp.weight", 1);
  Tensor(11, trace::GRADIENT, "", 0, 10);
  Tensor(12, trace::OPTIMIZER_STATE, "exp_avg", 0, 10);
  Tensor(13, trace::PARAMETER, "scale", 1);
  Tensor(14, trace::PARAMETER, "never.called.weight", 1);
  Tensor(15, trace::INPUT, "x", 0);
  ModuleTable table(&objects_, &rules_);
  EXPECT_EQ(table.OwnerOf(10), table.RowOf(2));
  EXPECT_EQ(table.OwnerOf(11), table.RowOf(2));
  EXPECT_EQ(table.OwnerOf(12), table.RowOf(2));
  EXPECT_EQ(table.OwnerOf(13), table.RowOf(1));
  EXPECT_EQ(table.row(table.OwnerOf(14)).fqn, "never.called");
  EXPECT_EQ(table.OwnerOf(15), 0u);
  EXPECT_EQ(table.OwnerOf(99), 0u);
}

TEST_F(ModuleTableTest, AdaptersAndBaseInOneModuleAreToldApart) {
  Module(1, 1, "", "GPT");
  Module(2, 1, "h.0.attn.q", "LoRALinear");
  Module(3, 1, "h.0.attn.k", "Linear");
  Module(4, 1, "h.0.mlp.lora_A.default", "Linear");
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const std::string name = layer == 0 ? "h.0.attn.q" : "h.0.attn.k";
    Tensor(10 + 10 * layer, trace::PARAMETER, name + ".weight", 1);
    Tensor(11 + 10 * layer, trace::PARAMETER, name + ".lora_A", 1);
    Tensor(12 + 10 * layer, trace::GRADIENT, "", 0, 11 + 10 * layer);
  }
  Tensor(30, trace::PARAMETER, "h.0.mlp.lora_A.default.weight", 1);
  ModuleTable table(&objects_, &rules_);
  for (const uint32_t weight : {10, 20}) {
    EXPECT_EQ(table.row(table.OwnerOf(weight)).component, "attention") << weight;
    EXPECT_EQ(table.row(table.OwnerOf(weight + 1)).component, "lora") << weight;
    EXPECT_EQ(table.OwnerOf(weight + 2), table.OwnerOf(weight + 1)) << "its gradient";
    EXPECT_EQ(table.row(table.OwnerOf(weight)).fqn, table.row(table.OwnerOf(weight + 1)).fqn);
  }
  EXPECT_EQ(table.OwnerOf(30), table.RowOf(4)) << "a module of its own";
}

TEST_F(ModuleTableTest, ATrainedWeightOfAnAdaptersClassIsTheAdapters) {
  Module(1, 1, "", "GPT");
  Module(2, 1, "h.0.attn.q", "LoraLayer");
  trace::Definitions definitions;
  trace::Tensor* const tensor = definitions.add_tensors();
  tensor->set_id(10);
  tensor->set_role(trace::PARAMETER);
  tensor->set_name("h.0.attn.q.down");
  tensor->set_root(1);
  tensor->set_trainable(true);
  ASSERT_TRUE(objects_.Add(definitions).ok());
  ModuleTable table(&objects_, &rules_);
  EXPECT_EQ(table.OwnerOf(10), table.RowOf(2));
  EXPECT_EQ(table.row(table.OwnerOf(10)).component, "lora");
}

TEST_F(ModuleTableTest, FrozenParametersAndGradientsOfSamplesAreParts) {
  Tensor(10, trace::PARAMETER, "base.weight", 1);
  Tensor(11, trace::PARAMETER, "adapter.weight", 1);
  Tensor(12, trace::GRADIENT, "", 0, 11);
  Tensor(13, trace::GRADIENT, "grad_sample", 0, 11);
  trace::Definitions definitions;
  trace::Tensor* const tensor = definitions.add_tensors();
  tensor->set_id(11);
  tensor->set_trainable(true);
  ASSERT_TRUE(objects_.Add(definitions).ok());
  const ModuleTable table(&objects_, &rules_);
  EXPECT_EQ(table.PartOf(10, Category::kParameter), Part::kFrozen);
  EXPECT_EQ(table.PartOf(11, Category::kParameter), Part::kTrainable);
  EXPECT_EQ(table.PartOf(12, Category::kGradient), Part::kWhole);
  EXPECT_EQ(table.PartOf(13, Category::kGradient), Part::kPerSample);
  EXPECT_EQ(table.PartOf(13, Category::kTemporary), Part::kWhole);
  EXPECT_EQ(table.PartOf(99, Category::kParameter), Part::kWhole);
}

}  // namespace
}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpumem {
namespace {

using ::testing::HasSubstr;

ResolvedFrame Native(const std::string& function, const std::string& module) {
  ResolvedFrame frame;
  frame.function = function;
  frame.module = module;
  return frame;
}

ResolvedFrame Python(const std::string& function, const std::string& file) {
  ResolvedFrame frame;
  frame.function = function;
  frame.file = file;
  frame.python = true;
  return frame;
}

TEST(RulesTest, ComponentsByClassAndName) {
  const Rules rules;
  EXPECT_EQ(rules.ComponentOf("LlamaSdpaAttention", "model.layers.0.self_attn"), "attention");
  EXPECT_EQ(rules.ComponentOf("Linear", "model.layers.0.self_attn.q_proj"), "attention");
  EXPECT_EQ(rules.ComponentOf("Linear", "model.layers.0.self_attn.q_proj.lora_A.default"), "lora");
  EXPECT_EQ(rules.ComponentOf("Linear", "model.layers.0.mlp.up_proj"), "mlp");
  EXPECT_EQ(rules.ComponentOf("LayerNorm", "ln_f"), "norm");
  EXPECT_EQ(rules.ComponentOf("Embedding", "wte"), "embedding");
  EXPECT_EQ(rules.ComponentOf("Conv2d", "features.0"), "conv");
  EXPECT_EQ(rules.ComponentOf("Linear", "lm_head"), "head");
  EXPECT_EQ(rules.ComponentOf("Linear", "projection"), "linear");
  EXPECT_EQ(rules.ComponentOf("Dropout", "drop"), "dropout");
  EXPECT_EQ(rules.ComponentOf("", ""), "other");
}

TEST(RulesTest, CategoriesByFunctionAndLibrary) {
  const Rules rules;
  EXPECT_EQ(rules.CategoryOf(Native("at::cuda::getCUDABlasWorkspace()", "/v/libtorch_cuda.so")), Category::kWorkspace);
  EXPECT_EQ(rules.CategoryOf(Native("x", "/v/nvidia/nccl/lib/libnccl.so.2")), Category::kCommunication);
  EXPECT_EQ(rules.CategoryOf(Native("x", "/usr/lib/libcudnn_ops.so.9")), Category::kWorkspace);
  EXPECT_EQ(rules.CategoryOf(Python("DynamicCache.update", "/v/transformers/cache_utils.py")), Category::kKvCache);
  EXPECT_FALSE(rules.CategoryOf(Native("at::native::empty_cuda", "/v/libtorch_cuda.so")));
}

TEST(RulesTest, TheUsersRulesComeFirst) {
  Rules rules;
  ASSERT_TRUE(rules
                  .AddBefore("# mine\n\ncomponent head name ^lm_head$\ncategory kv_cache function MyCache\n"
                             "component special class Attention\n")
                  .ok());
  EXPECT_EQ(rules.ComponentOf("Linear", "lm_head"), "head");
  EXPECT_EQ(rules.ComponentOf("GPT2Attention", "h.0.attn"), "special");
  EXPECT_EQ(rules.ComponentOf("LayerNorm", "ln_f"), "norm") << "the built-in ones still hold";
  EXPECT_EQ(rules.CategoryOf(Python("MyCache.grow", "/job/serve.py")), Category::kKvCache);
}

TEST(RulesTest, ABadLineIsNamedAndNothingIsAdded) {
  for (const auto& [text, words] :
       {std::pair{"component x class A\ncomponents y class B", "line 2"},
        std::pair{"category parameters function f", "parameters is not a category"},
        std::pair{"component x function f", "`class` or `name`"},
        std::pair{"category kv_cache class f", "`function` or `file`"}, std::pair{"component x class", "missing"},
        std::pair{"component x class (", "regular expression"}}) {
    Rules rules;
    const absl::Status added = rules.AddBefore(text);
    EXPECT_THAT(std::string(added.message()), HasSubstr(words));
    EXPECT_EQ(rules.ComponentOf("A", ""), "other");
  }
}

}  // namespace
}  // namespace gpumem

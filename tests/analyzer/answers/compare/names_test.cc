// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/names.h"

#include <gmock/gmock.h>

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NamesTest, PlacesAreRead) {
  const CodePlace place = ParsePlace("src/train.py:42 Block.forward");
  EXPECT_EQ(place.file, "src/train.py");
  EXPECT_EQ(place.line, 42u);
  EXPECT_EQ(place.function, "Block.forward");
  EXPECT_EQ(PlaceText(place), "src/train.py:42 Block.forward");
  EXPECT_EQ(ParsePlace("a:b.py:7 f").file, "a:b.py");
  EXPECT_EQ(ParsePlace("ncclCommInitRank (libnccl.so)").line, 0u);
  EXPECT_EQ(PlaceText(ParsePlace("at::native::empty (libtorch.so)")), "at::native::empty (libtorch.so)");
}

TEST(NamesTest, LinesAreTakenOut) {
  EXPECT_EQ(WithoutLines("aten::linear in torch/nn/linear.py:134 Linear.forward"),
            "aten::linear in torch/nn/linear.py Linear.forward");
  EXPECT_EQ(WithoutLines("x:"), "x:");
}

TEST(NamesTest, LayersAreFoldedAndWrappersLeftOut) {
  EXPECT_EQ(FoldNumbers("model.layers.12.mlp"), "model.layers.*.mlp");
  EXPECT_EQ(FoldNumbers("conv1.0x"), "conv1.0x");
  EXPECT_EQ(WithoutWrappers("_orig_mod.module.layers.0._checkpoint_wrapped_module.mlp"), "layers.0.mlp");
  EXPECT_EQ(WithoutWrappers("layers.module"), "layers.module");
  EXPECT_THAT(Prefixes("layers.*.mlp.up"), ElementsAre("layers.*", "layers.*.mlp", "layers.*.mlp.up"));
  EXPECT_THAT(Prefixes(""), IsEmpty());
}

}  // namespace
}  // namespace gpumem

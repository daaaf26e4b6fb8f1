// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "report/frame_class.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace gpumem {
namespace {

using testing::Native;
using testing::Python;

FrameClass ClassOf(const std::string& file) { return ClassifyFrame(Python("f", file, 1)); }

TEST(ClassifyFrame, TellsWhosePythonCodeItIs) {
  EXPECT_EQ(ClassOf("/home/me/job/train.py"), FrameClass::kUser);
  EXPECT_EQ(ClassOf("<stdin>"), FrameClass::kUser);
  EXPECT_EQ(ClassOf("/opt/v/lib/python3.11/site-packages/torch/nn/modules/linear.py"), FrameClass::kTorch);
  EXPECT_EQ(ClassOf("/src/pytorch/torch/nn/modules/linear.py"), FrameClass::kTorch);
  EXPECT_EQ(ClassOf("/tmp/torchinductor_me/ab/cab.py"), FrameClass::kTorch);
  EXPECT_EQ(ClassOf("/opt/v/lib/python3.11/site-packages/transformers/trainer.py"), FrameClass::kLibrary);
  EXPECT_EQ(ClassOf("/usr/lib/python3/dist-packages/numpy/core.py"), FrameClass::kLibrary);
  EXPECT_EQ(ClassOf("/usr/lib/python3.11/threading.py"), FrameClass::kStandardLibrary);
  EXPECT_EQ(ClassOf("<frozen runpy>"), FrameClass::kStandardLibrary);
  EXPECT_EQ(ClassOf("<frozen importlib._bootstrap>"), FrameClass::kImportMachinery);
}

TEST(ClassifyFrame, TellsTheUsersNativeCodeFromTheRest) {
  EXPECT_EQ(ClassifyFrame(Native("main", "/home/me/job/solver")), FrameClass::kUser);
  EXPECT_EQ(ClassifyFrame(Native("at::empty", "/x/libtorch_cpu.so")), FrameClass::kNative);
  EXPECT_EQ(ClassifyFrame(Native("read", "/lib/x86_64-linux-gnu/libc.so.6")), FrameClass::kNative);
  EXPECT_EQ(ClassifyFrame(Native("main", "/home/me/.pyenv/bin/python3.11")), FrameClass::kNative);
  EXPECT_EQ(ClassifyFrame(Native("?", "")), FrameClass::kNative);
}

TEST(ShortFile, KeepsWhatTellsFilesApart) {
  EXPECT_EQ(ShortFile("/home/me/job/src/model.py", "/home/me/job"), "src/model.py");
  EXPECT_EQ(ShortFile("/home/me/job2/model.py", "/home/me/job"), "job2/model.py");
  EXPECT_EQ(ShortFile("/v/lib/python3.11/site-packages/torch/optim/adamw.py", "/v"), "torch/optim/adamw.py");
  EXPECT_EQ(ShortFile("train.py", "/x"), "train.py");
  EXPECT_EQ(ShortFile("/train.py", "/"), "train.py");
  EXPECT_EQ(ShortFile("<stdin>", "/x"), "<stdin>");
}

TEST(Names, OfAutogradNodesAndOperators) {
  EXPECT_EQ(AutogradNode("torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)"),
            "AddmmBackward0");
  EXPECT_EQ(AutogradNode("torch::autograd::AccumulateGrad::apply(int)"), "AccumulateGrad");
  EXPECT_EQ(AutogradNode("std::apply<int>"), "");
  EXPECT_EQ(AtenOperator("at::_ops::linear::call(at::Tensor const&)"), "aten::linear");
  EXPECT_EQ(AtenOperator("at::native::linear(at::Tensor const&)"), "");
}

}  // namespace
}  // namespace gpumem

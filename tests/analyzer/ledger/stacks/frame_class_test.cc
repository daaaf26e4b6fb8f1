// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/frame_class.h"

#include <gtest/gtest.h>

#include "answers/report/fixture.h"

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
  const std::string hash = "ci773ke336mweu3ascmfkjnjbnkk7qhnetpdby7xzj3qssj7lqqx";
  EXPECT_EQ(ClassOf("/scratch/me/cache/i7/" + hash + ".py"), FrameClass::kTorch) << "TORCHINDUCTOR_CACHE_DIR";
  EXPECT_EQ(ClassOf("/scratch/me/cache/i8/" + hash + ".py"), FrameClass::kUser) << "not the hash's folder";
  EXPECT_EQ(ClassOf("/home/me/job/onfigurations/configurations.py"), FrameClass::kUser);
  EXPECT_EQ(ClassOf("/opt/v/lib/python3.11/site-packages/transformers/trainer.py"), FrameClass::kLibrary);
  EXPECT_EQ(ClassOf("/usr/lib/python3/dist-packages/numpy/core.py"), FrameClass::kLibrary);
  EXPECT_EQ(ClassOf("/usr/lib/python3.11/threading.py"), FrameClass::kStandardLibrary);
  EXPECT_EQ(ClassOf("<frozen runpy>"), FrameClass::kStandardLibrary);
  EXPECT_EQ(ClassOf("<frozen importlib._bootstrap>"), FrameClass::kImportMachinery);
}

TEST(ClassifyFrame, TheForkServerOfPlansIsNobodysScript) {
  const auto frame = Python("<module>", "/tmp/gpumemshim-plan-x/servers/server1/fork_server.py", 300);
  EXPECT_EQ(ClassifyFrame(frame), FrameClass::kStandardLibrary);
  EXPECT_FALSE(IsTelling(frame));
  EXPECT_EQ(ClassOf("/home/me/job/fork_server.py"), FrameClass::kUser);
}

TEST(ClassifyFrame, TellsTheUsersNativeCodeFromTheRest) {
  EXPECT_EQ(ClassifyFrame(Native("main", "/home/me/job/solver")), FrameClass::kUser);
  EXPECT_EQ(ClassifyFrame(Native("at::empty", "/x/libtorch_cpu.so")), FrameClass::kNative);
  EXPECT_EQ(ClassifyFrame(Native("read", "/lib/x86_64-linux-gnu/libc.so.6")), FrameClass::kNative);
  EXPECT_EQ(ClassifyFrame(Native("main", "/home/me/.pyenv/bin/python3.11")), FrameClass::kNative);
  EXPECT_EQ(ClassifyFrame(Native("?", "")), FrameClass::kNative);
  const std::string ctypes = "/home/me/.pyenv/versions/3.11.7/lib/python3.11/lib-dynload/_ctypes.cpython-311.so";
  EXPECT_EQ(ClassifyFrame(Native("_ctypes_callproc", ctypes, "Modules/_ctypes/callproc.c", 9)), FrameClass::kNative);
  EXPECT_FALSE(IsTelling(Native("_ctypes_callproc", ctypes)));
  EXPECT_EQ(ClassifyFrame(Native("ffi_call", "/home/me/miniconda3/envs/job/lib/libffi.so.8")), FrameClass::kNative);
  EXPECT_EQ(ClassifyFrame(Native("solve", "/home/me/job/lib/libsolver.so")), FrameClass::kUser);
  for (const char* name : {"libcudart_static_5382377d5c772c9d197c0cda9fd9742ee6ad893c", "cudaMallocAsync"})
    EXPECT_EQ(ClassifyFrame(Native(name, "/home/me/job/solver")), FrameClass::kNative) << name;
}

TEST(FrameText, NamesCompiledCodeInWhicheverFolder) {
  const std::string hash = "ci773ke336mweu3ascmfkjnjbnkk7qhnetpdby7xzj3qssj7lqqx";
  EXPECT_EQ(FrameText(Python("Runner.call", "/tmp/tmp1qa02q0v/i7/" + hash + ".py", 350), "/home/me"),
            "compiled code ci773ke3:350 Runner.call");
}

TEST(IsMark, IsNoFunctionOfAnyLanguage) {
  EXPECT_TRUE(IsMark(Native("<callers not recorded>", "")));
  EXPECT_FALSE(IsMark(Native("<alloc::vec::Vec<T> as core::ops::Drop>::drop", "/home/me/job/solver")));
  EXPECT_FALSE(IsMark(Python("<module>", "/home/me/job/train.py", 1)));
}

TEST(IsTrampoline, KnowsThoseOfPyTorchAndOfDecorators) {
  EXPECT_TRUE(IsTrampoline(Python("Module._call_impl", "/v/site-packages/torch/nn/modules/module.py", 1790)));
  EXPECT_TRUE(IsTrampoline(Python("deprecate_kwarg.<locals>.wrapper.<locals>.wrapped_func",
                                  "/v/site-packages/transformers/utils/deprecation.py", 172)));
  EXPECT_FALSE(IsTrampoline(Python("Block.forward", "/home/me/job/train.py", 12)));
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

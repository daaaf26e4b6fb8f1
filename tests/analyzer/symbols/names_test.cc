// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/names.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

TEST(NamesTest, Demangles) {
  EXPECT_EQ(Demangle("_ZN2at6native3addIfEEvRKNS_6TensorE"), "void at::native::add<float>(at::Tensor const&)");
  EXPECT_EQ(Demangle("cudaMalloc"), "cudaMalloc");
  EXPECT_EQ(Demangle("_Znonsense"), "_Znonsense");
  EXPECT_EQ(Demangle("_ZN2at5emptyEv@plt"), "at::empty()@plt");
  EXPECT_EQ(Demangle("@plt"), "@plt");
}

TEST(NamesTest, Shortens) {
  const std::pair<const char*, const char*> cases[] = {
      {"cudaMalloc", "cudaMalloc"},
      {"void at::native::add<float>(at::Tensor const&)", "at::native::add"},
      {"at::Tensor::sum(c10::ArrayRef<long>, bool) const", "at::Tensor::sum"},
      {"std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector::push_back"},
      {"(anonymous namespace)::run(int)", "(anonymous namespace)::run"},
      {"unsigned long foo<int>(char const*)", "foo"},
      {"Foo::operator()(int) const", "Foo::operator()"},
      {"bool operator==(A const&, B const&)", "operator=="},
      {"std::ostream& operator<< <char>(std::ostream&, char)", "operator<<"},
      {"Foo::operator bool() const", "Foo::operator bool"},
      {"operator new(unsigned long)", "operator new"},
      {"main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()"},
      {"f(int)::{lambda()#2}::operator()() const", "f::{lambda#2}::operator()"},
      {"char const* name(int)", "name"},
      {"std::__cxx11::basic_string<char>::append[abi:cxx11](char const*)", "std::__cxx11::basic_string::append"},
      {"decltype (f(0)) g<int>(int)", "g"},
      {"run(int) [clone .cold]", "run"},
      {"cudaMalloc@plt", "cudaMalloc@plt"},
      {"at::empty(c10::ArrayRef<long>)@plt", "at::empty@plt"},
      // Too long for the demangler, so it was left mangled.
      {"_ZN7cutlass6KernelINS_4gemm6kernel4GemmI", "cutlass::Kernel"},
      {"_ZN2at6native12_GLOBAL__N_13addERKNS_6TensorE", "at::native::(anonymous namespace)::add"},
      {"_ZL55__device_stub__ZN7cutlass6KernelINS_4gemm6kernel4GemmIEv", "cutlass::Kernel"},
      {"_ZNSt6vectorIiE", "std::vector"},
      {"_ZZN2at4wrapIZN5torch3rpcEE", "at::wrap"},
      {"__device_stub__Z12fmha_forwardN22PyTorchMemEffAttentionE", "fmha_forward"},
      {"void (*c10d::toFunction<float, 0>(c10d::ReduceOp const&))(void*, void const*) [clone .isra.0]",
       "c10d::toFunction"},
      {"run(void (*)(int))", "run"},
      {"_Z", "_Z"},
      {"_ZN99999999999f", "_ZN99999999999f"},
      {"", ""},
      {"<", "<"},
  };
  for (const auto& [full, want] : cases) EXPECT_EQ(ShortName(full), want) << full;
}

TEST(NamesTest, PartsOfAFunctionThatTorchCompileMadeHaveItsName) {
  EXPECT_EQ(WithoutResumption("torch_dynamo_resume_in_forward_at_24"), "forward");
  EXPECT_EQ(WithoutResumption("Net.torch_dynamo_resume_in_load_at_home_at_7"), "Net.load_at_home");
  EXPECT_EQ(WithoutResumption("torch_dynamo_resume_in_torch_dynamo_resume_in_f_at_1_at_2"), "f");
  EXPECT_EQ(WithoutResumption("torch_dynamo_resume_in_x"), "torch_dynamo_resume_in_x");
  EXPECT_EQ(WithoutResumption("main.<locals>.step"), "main.<locals>.step");
  EXPECT_EQ(WithoutResumption(""), "");
}

}  // namespace
}  // namespace gpumem

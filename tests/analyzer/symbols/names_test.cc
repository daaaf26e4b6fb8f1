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
      {"", ""},
      {"<", "<"},
  };
  for (const auto& [full, want] : cases) EXPECT_EQ(ShortName(full), want) << full;
}

}  // namespace
}  // namespace gpumem

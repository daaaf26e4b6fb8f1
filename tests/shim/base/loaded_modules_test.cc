// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Libraries that are replaced: tests/shim/stack/torture.

#include "shim/base/loaded_modules.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace gpumemshim::modules {
namespace {

constexpr const char* kLibrary = "libanl.so.1";  // small, and nobody else's

TEST(LoadedModules, NamesTheModuleOfAnAddress) {
  Prepare();
  const uint32_t own = NumberOf(reinterpret_cast<uint64_t>(&kLibrary));
  const uint32_t libc = NumberOf(reinterpret_cast<uint64_t>(&getpid));
  ASSERT_NE(own, 0u);
  ASSERT_NE(libc, 0u);
  EXPECT_NE(own, libc);
  EXPECT_NE(std::string(At(libc).path).find("libc"), std::string::npos);
  EXPECT_EQ(At(libc).build_id_bytes, 20u);
  int local = 0;
  EXPECT_EQ(NumberOf(reinterpret_cast<uint64_t>(&local)), 0u) << "a stack is not a module";
}

TEST(LoadedModules, NoticesALoadWithoutBeingToldAndSettles) {
  Prepare();
  ASSERT_FALSE(MayHaveChanged()) << "the loader's count was not found in this C library";
  const uint32_t before = Count();
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  EXPECT_TRUE(MayHaveChanged());
  EXPECT_TRUE(Look());
  EXPECT_FALSE(MayHaveChanged());
  EXPECT_GT(Count(), before);
  const uint32_t number = Count();
  const uint64_t inside = At(number).start + 1;
  EXPECT_EQ(NumberOf(inside), number);

  dlclose(library);
  EXPECT_TRUE(MayHaveChanged()) << "unloading alone counts too";
  EXPECT_TRUE(Look());
  EXPECT_EQ(NumberOf(inside), 0u) << "gone, but still defined";
  EXPECT_EQ(At(number).start + 1, inside);
}

TEST(LoadedModules, RemembersGeneratedCode) {
  alignas(4096) static char code[4096];
  const auto place = reinterpret_cast<uint64_t>(code);
  EXPECT_FALSE(IsForeign(place));
  EXPECT_TRUE(NoteForeign(place));
  EXPECT_FALSE(NoteForeign(place + 16)) << "known";
  EXPECT_TRUE(IsForeign(place));
  EXPECT_TRUE(IsIrregular(place));
  EXPECT_TRUE(HasIrregular());
}

}  // namespace
}  // namespace gpumemshim::modules

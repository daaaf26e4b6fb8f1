// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/base/calls/own_symbols.h"

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

TEST(OwnSymbols, EveryNameOfTheTableIsFoundAndHasAnAddressOfItsOwn) {
  std::map<void*, std::string> addresses;
  for (uint16_t i = 1; i < kApiCount; ++i) {
    const auto id = static_cast<ApiId>(i);
    if (ApiLayer(id) == Layer::kTorch) {
      EXPECT_EQ(FindOwnSymbol(ApiName(i)), ApiId::kNone);
      EXPECT_EQ(OwnAddress(id), nullptr);
      continue;
    }
    EXPECT_EQ(FindOwnSymbol(ApiName(i)), id) << ApiName(i);
    ASSERT_NE(OwnAddress(id), nullptr) << ApiName(i);
    EXPECT_TRUE(addresses.emplace(OwnAddress(id), ApiName(i)).second) << ApiName(i);
  }
  EXPECT_EQ(OwnAddress(ApiId::kNone), nullptr);
}

TEST(OwnSymbols, AnAddressIsThatOfTheHook) {
  EXPECT_EQ(OwnAddress(ApiId::kcudaMalloc), reinterpret_cast<void*>(&::cudaMalloc));
  EXPECT_EQ(OwnAddress(ApiId::kcuMemAlloc_v2), reinterpret_cast<void*>(&::cuMemAlloc_v2));
  EXPECT_EQ(OwnAddress(ApiId::kcuMemAlloc), reinterpret_cast<void*>(&::cuMemAlloc));
}

TEST(OwnSymbols, OtherNamesAreNone) {
  for (const char* name : {"", "c", "cu", "cuda", "cuMemAllo", "cuMemAlloc_v22", "cuMemGetInfo_v2", "cudaMemcpy",
                           "cublasCreate_v2", "curl_easy_init", "malloc"}) {
    EXPECT_EQ(FindOwnSymbol(name), ApiId::kNone) << name;
  }
  EXPECT_EQ(FindOwnSymbol(nullptr), ApiId::kNone);
}

}  // namespace
}  // namespace gpumemshim::hooks

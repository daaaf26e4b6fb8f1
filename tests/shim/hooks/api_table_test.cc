// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The table against NVIDIA's headers: each row must be declared there. (That our definitions have NVIDIA's signatures
// the compiler says where they are defined.)

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "shim/base/api.h"
#include "shim/base/calls/own_symbols.h"
#include "shim/hooks/cuda_api.h"

namespace gpumemshim::hooks {
namespace {

#define GPUMEM_TORCH_CALL(name, text)
#define GPUMEM_RUNTIME_SYMBOL(name) static_assert(sizeof(decltype(&::name)) == sizeof(void*));
#define GPUMEM_DRIVER_SYMBOL(name) static_assert(sizeof(decltype(&::name)) == sizeof(void*));
#include "shim/base/api.def"
#undef GPUMEM_TORCH_CALL
#undef GPUMEM_RUNTIME_SYMBOL
#undef GPUMEM_DRIVER_SYMBOL

TEST(ApiTable, NamesAreUniqueAndLayered) {
  std::set<std::string> names;
  for (uint16_t id = 1; id < kApiCount; ++id) {
    const std::string name = ApiName(id);
    EXPECT_TRUE(names.insert(name).second) << name;
    const Layer layer = ApiLayer(static_cast<ApiId>(id));
    if (layer == Layer::kTorch) continue;
    EXPECT_EQ(layer == Layer::kRuntime, name.compare(0, 4, "cuda") == 0) << name;
    EXPECT_TRUE(calls::LooksLikeCuda(name.c_str())) << name;
  }
  EXPECT_STREQ(ApiName(0), "");
  EXPECT_STREQ(ApiName(kApiCount), "");
  EXPECT_STREQ(ApiName(static_cast<uint16_t>(ApiId::kcuMemAlloc_v2)), "cuMemAlloc_v2");
}

TEST(ApiTable, ForeignNamesAreToldByTheirThirdLetter) {
  for (const char* name :
       {"cublasCreate_v2", "cudnnCreate", "curl_easy_init", "cusparseCreate", "cudart", "malloc", "c", ""}) {
    EXPECT_FALSE(calls::LooksLikeCuda(name)) << name;
  }
}

}  // namespace
}  // namespace gpumemshim::hooks

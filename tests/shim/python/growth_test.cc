// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/growth.h"

#include <gtest/gtest.h>

namespace gpumemshim::python {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A step that takes 100 blocks and gives them back, but for what it keeps.
void Step(Growth* growth, int64_t kept) {
  for (int i = 0; i < 100; ++i) growth->Add(kMiB * (1 + i % 7));
  if (kept != 0) growth->Add(kept);
  for (int i = 0; i < 100; ++i) growth->Add(-kMiB * (1 + i % 7));
}

TEST(Growth, WhatEachStepKeepsIsSeen) {
  for (const int steps : {8, 30, 1000, 100'000}) {
    Growth growth;
    growth.Add(500 * kMiB);  // a model
    for (int i = 0; i < steps; ++i) Step(&growth, 512);
    EXPECT_TRUE(growth.Rises()) << steps;
  }
}

TEST(Growth, WhatComesAndGoesIsNone) {
  for (const int steps : {0, 1, 8, 30, 1000, 100'000}) {
    Growth growth;
    growth.Add(500 * kMiB);
    for (int i = 0; i < steps; ++i) Step(&growth, 0);
    EXPECT_FALSE(growth.Rises()) << steps;
  }
}

TEST(Growth, WhatWasLetGoOfIsNone) {
  Growth growth;
  for (int i = 0; i < 1000; ++i) Step(&growth, kMiB);
  EXPECT_TRUE(growth.Rises());
  for (int i = 0; i < 1000; ++i) growth.Add(-kMiB);
  EXPECT_FALSE(growth.Rises());
}

TEST(Growth, WhatAFunctionLetsGoOfAtItsEndHidesNoneOfTheRest) {
  Growth growth;
  growth.Add(20 * kMiB);  // the model of main()
  for (int i = 0; i < 1000; ++i) Step(&growth, kMiB);
  growth.Add(-20 * kMiB);
  EXPECT_TRUE(growth.Rises());
}

}  // namespace
}  // namespace gpumemshim::python

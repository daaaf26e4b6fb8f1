// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/category.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gpumem {
namespace {

TEST(CategoryTest, EveryNameIsItsOwnAndFindsItsCategory) {
  std::set<std::string> names;
  for (size_t i = 0; i < kCategories; ++i) {
    const Category category = static_cast<Category>(i);
    names.insert(std::string(CategoryName(category)));
    EXPECT_EQ(CategoryNamed(CategoryName(category)), category);
  }
  EXPECT_EQ(names.size(), kCategories);
  EXPECT_FALSE(CategoryNamed("parameters"));
}

TEST(CategoryTest, EveryPartHasANameAndAWhole) {
  for (size_t i = 1; i < kParts; ++i) {
    EXPECT_FALSE(PartName(static_cast<Part>(i)).empty());
    EXPECT_FALSE(PartTitle(static_cast<Part>(i)).empty());
    EXPECT_NE(CategoryOf(static_cast<Part>(i)), Category::kUnknown);
  }
  EXPECT_EQ(PartName(Part::kWhole), "");
}

}  // namespace
}  // namespace gpumem

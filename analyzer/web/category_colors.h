// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The colour of each category in pages, plots and sweeps, so that all look alike: places in the one palette. Constant.
//
//   CategoryColor("activations")   // 0xe69f00

#ifndef GPUMEM_ANALYZER_WEB_CATEGORY_COLORS_H_
#define GPUMEM_ANALYZER_WEB_CATEGORY_COLORS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/palette.h"
#include "ledger/attribution/category.h"

namespace gpumem {

inline constexpr std::pair<Category, size_t> kCategoryFills[] = {
    {Category::kParameter, 0}, {Category::kActivation, 1},    {Category::kOptimizerState, 2},
    {Category::kTemporary, 3}, {Category::kBuffer, 4},        {Category::kGradient, 5},
    {Category::kInput, 6},     {Category::kCommunication, 7}, {Category::kKvCache, 8},
    {Category::kKept, 9},      {Category::kGraphPool, 10},    {Category::kWorkspace, 11},
    {Category::kUnknown, 12},  {Category::kLibrary, 13},
};

// 0xRRGGBB of the category with this title; nullopt of other texts.
inline std::optional<uint32_t> CategoryColor(absl::string_view title) {
  for (const auto& [category, place] : kCategoryFills) {
    if (CategoryTitle(category) == title) return kPalette[place].rgb;
  }
  return std::nullopt;
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_CATEGORY_COLORS_H_

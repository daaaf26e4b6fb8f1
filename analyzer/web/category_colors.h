// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The colour of each category in pages and plots, so that both look alike: colours that people with any colour vision
// can tell apart, after Okabe and Ito, "Color Universal Design", 2008, and some darker ones. Constant.
//
//   CategoryColor("activations")   // 0xe69f00

#ifndef GPUMEM_ANALYZER_WEB_CATEGORY_COLORS_H_
#define GPUMEM_ANALYZER_WEB_CATEGORY_COLORS_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "ledger/attribution/category.h"

namespace gpumem {

inline constexpr std::pair<Category, uint32_t> kCategoryColors[] = {
    {Category::kParameter, 0x0072b2},      {Category::kBuffer, 0x56b4e9},     {Category::kGradient, 0xd55e00},
    {Category::kOptimizerState, 0x009e73}, {Category::kActivation, 0xe69f00}, {Category::kTemporary, 0xcc79a7},
    {Category::kInput, 0xf0e442},          {Category::kWorkspace, 0x8c8c8c},  {Category::kCommunication, 0x7a5195},
    {Category::kKvCache, 0x2f4b7c},        {Category::kKept, 0x9c755f},       {Category::kGraphPool, 0x76b7b2},
    {Category::kLibrary, 0x59a14f},        {Category::kUnknown, 0xbab0ac},
};

// 0xRRGGBB of the category with this title; nullopt of other texts.
inline std::optional<uint32_t> CategoryColor(absl::string_view title) {
  for (const auto& [category, color] : kCategoryColors) {
    if (CategoryTitle(category) == title) return color;
  }
  return std::nullopt;
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_WEB_CATEGORY_COLORS_H_

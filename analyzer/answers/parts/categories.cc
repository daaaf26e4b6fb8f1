// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/categories.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/parts/attribution_json.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {

Datum CategoriesDatum(const CategoryBytes& bytes) {
  std::vector<Member> members;
  for (size_t i = 0; i < kCategories; ++i)
    members.push_back({std::string(CategoryName(static_cast<Category>(i))), bytes[i]});
  return Datum::Object(std::move(members), JsonLayout::kOneLine);
}

std::vector<size_t> CategoriesBySize(const CategoryBytes& bytes) {
  std::vector<size_t> order;
  for (size_t i = 0; i + 1 < kCategories; ++i) {
    if (bytes[i] != 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  order.push_back(Index(Category::kUnknown));
  return order;
}

std::string LargestCategories(const CategoryBytes& bytes) {
  std::vector<std::string> words;
  for (const size_t i : CategoriesBySize(bytes)) {
    if (bytes[i] != 0 && words.size() < 3)
      words.push_back(absl::StrCat(CategoryTitle(static_cast<Category>(i)), " ", FormatBytes(bytes[i])));
  }
  return absl::StrJoin(words, ", ");
}

std::string LargestOfBlocks(CategoryBytes bytes) {
  for (const Category beyond : {Category::kAllocatorOverhead, Category::kContext, Category::kLibrary})
    bytes[Index(beyond)] = 0;
  return LargestCategories(bytes);
}

Document AttributedAnswer(absl::string_view command, const ReportInput& input) {
  Document answer = TraceAnswer(command, input);
  answer.Old([&input](JsonWriter* json) { WriteJsonBasis(*input.attribution, json); });
  return answer;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/categories.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/report/trace_answer.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {

Datum CategoriesDatum(const CategoryBytes& bytes) {
  std::vector<Member> members;
  for (size_t i = 0; i < kCategories; ++i)
    members.push_back({std::string(CategoryName(static_cast<Category>(i))), bytes[i], "the categories"});
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

void AddBasis(const Attribution& attribution, Document* answer) {
  answer->Field("device", attribution.device, "CUDA ordinal of the GPU");
  answer->Field(
      "has_tensors", attribution.has_tensors,
      "the program's tensors were observed; if not, parameters, gradients and optimizer state are identified by "
      "stacks alone");
  answer->Field("has_saved", attribution.has_saved, "autograd was listened to");
  answer->Field("unplaced_tensors", attribution.unplaced,
                "times that a tensor was said to lie where no block of PyTorch's was");
}

Document AttributedAnswer(absl::string_view command, const ReportInput& input) {
  Document answer = TraceAnswer(command, input);
  AddBasis(*input.attribution, &answer);
  return answer;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/spare_results.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "absl/strings/strip.h"
#include "base/format.h"

namespace gpumem {
namespace {

constexpr size_t kLeastJoins = 8;
constexpr uint64_t kLeastPercent = 5;  // of the peak
constexpr uint64_t kPart = 64;         // a slice is one part in so many, or less;
constexpr uint64_t kPartInAll = 16;    // and all that is made meanwhile
constexpr uint64_t kIndexBytes = 8;

// The overload follows the name: "softmax_int".
struct Family {
  ResultOf of;
  std::initializer_list<absl::string_view> names;
};
const Family kFamilies[] = {
    {ResultOf::kProduct, {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum"}},
    {ResultOf::kJoin, {"cat", "concat", "concatenate", "hstack", "vstack"}},
    {ResultOf::kAlike, {"softmax", "_softmax", "log_softmax", "_log_softmax", "clone", "contiguous", "div"}},
    {ResultOf::kIndices, {"argmax"}},
};

}  // namespace

ResultOf ResultOfOperator(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "aten::")) return ResultOf::kOther;
  if (name == "to_dtype" || name == "to.dtype") return ResultOf::kCopy;  // "to_dtype_layout" comes from the host
  for (const Family& family : kFamilies) {
    for (const absl::string_view each : family.names) {
      absl::string_view rest = name;
      if (absl::ConsumePrefix(&rest, each) && (rest.empty() || rest[0] == '_' || rest[0] == '.')) return family.of;
    }
  }
  return ResultOf::kOther;
}

void SpareResults::Take(const LifeSpan& block, uint64_t requested, ResultOf of, bool is_plain) {
  if (of == ResultOf::kJoin && is_plain) joins_[block.stack].push_back(block);
  const bool is_large =
      is_plain && (of == ResultOf::kProduct || of == ResultOf::kCopy) && HasPercent(block.size, peak_, kLeastPercent);
  if (is_large) large_.push_back(block);
  const uint64_t away = std::max(block.born, peak_event_) - std::min(block.born, peak_event_);
  if (away <= kNear) near_.push_back({block, requested, of, is_large});
}

std::vector<LifeSpan> SpareResults::Joined() const {
  std::vector<LifeSpan> joined;
  for (const auto& [stack, spans] : joins_) {
    size_t from = 0;
    for (size_t i = 1; i <= spans.size(); ++i) {
      const bool goes_on = i < spans.size() && spans[i - 1].size < spans[i].size && spans[i].born < spans[i - 1].end &&
                           spans[i - 1].born < spans[i].born &&
                           (i < 2 || i - 1 == from || spans[i - 2].end < spans[i].born);
      if (goes_on) continue;
      if (i - from >= kLeastJoins) joined.insert(joined.end(), spans.begin() + from, spans.begin() + i);
      from = i;
    }
  }
  return joined;
}

bool SpareResults::IsSliceOf(const Result& made, const Result& result) const {
  if (made.of == ResultOf::kAlike || made.of == ResultOf::kCopy) return true;
  if (made.of != ResultOf::kIndices) return false;
  // Below its smallest block PyTorch does not tell what was asked for.
  const uint64_t most_rows = (made.requested != 0 ? made.requested : made.span.size) / kIndexBytes;
  bool is_known = false;
  for (const uint64_t width : widths_) {
    for (const uint64_t element : {uint64_t{2}, uint64_t{4}}) {
      if (width == 0 || result.requested % (width * element) != 0) continue;
      if (result.requested / (width * element) <= most_rows) return false;  // perhaps of all rows
      is_known = true;
    }
  }
  return is_known;
}

bool SpareResults::IsLittleUsed(const Result& result) const {
  uint64_t in_all = 0;
  const Result* first = nullptr;
  for (const Result& made : near_) {
    const bool is_meanwhile = result.span.born < made.span.born && made.span.born < result.span.end;
    if (!is_meanwhile || (made.of == ResultOf::kCopy && made.is_large)) continue;  // which is judged by itself
    if (made.span.size * kPart > result.span.size) return false;
    in_all += made.span.size;
    if (first == nullptr) first = &made;
  }
  return first != nullptr && in_all * kPartInAll <= result.span.size && IsSliceOf(*first, result);
}

std::vector<LifeSpan> SpareResults::LittleUsed() {
  std::sort(near_.begin(), near_.end(), [](const Result& a, const Result& b) { return a.span.born < b.span.born; });
  absl::flat_hash_set<uint64_t> stacks;
  const Result* product = nullptr;
  for (const Result& result : near_) {
    if (!result.is_large) continue;
    if (result.of == ResultOf::kProduct) product = &result;
    // A copy of a product: the product may be gone by the time of the use.
    const bool is_copy = result.of == ResultOf::kCopy && product != nullptr && result.span.born < product->span.end;
    const bool is_at_peak = result.span.born <= peak_event_ && peak_event_ < result.span.end;
    if ((result.of != ResultOf::kProduct && !is_copy) || !is_at_peak || result.span.end > peak_event_ + kNear) continue;
    if (!IsLittleUsed(result)) continue;
    stacks.insert(result.span.stack);
    if (is_copy) stacks.insert(product->span.stack);
  }
  std::vector<LifeSpan> spans;
  std::copy_if(large_.begin(), large_.end(), std::back_inserter(spans),
               [&](const LifeSpan& span) { return stacks.contains(span.stack); });
  return spans;
}

}  // namespace gpumem

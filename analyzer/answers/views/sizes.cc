// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/views/lists.h"
#include "base/format.h"

namespace gpumem {
namespace {

std::vector<AnswerColumn<SizeBucket>> BucketColumns(const SizeHistogram& histogram, const Weight& whole) {
  constexpr char kLimits[] = "of a bucket: the smallest size in it, and the smallest beyond it";
  constexpr char kWeight[] = "of its allocations";
  uint64_t most = 0;
  for (const SizeBucket& bucket : histogram.buckets) most = std::max(most, bucket.weight.count);
  return {
      {"from_bytes", "size", Unit::kBytes, kLimits, [](const SizeBucket& bucket) { return bucket.from; },
       [](const SizeBucket& bucket) { return absl::StrCat(FormatBytes(bucket.from), " to ", FormatBytes(bucket.to)); }},
      {"below_bytes", "", Unit::kBytes, kLimits, [](const SizeBucket& bucket) { return bucket.to; }},
      {"count", "count", Unit::kCount, kWeight, [](const SizeBucket& bucket) { return bucket.weight.count; }},
      CountShareColumn<SizeBucket>(whole.count, [](const SizeBucket& bucket) { return bucket.weight.count; }),
      {"bytes", "bytes", Unit::kBytes, kWeight, [](const SizeBucket& bucket) { return bucket.weight.bytes; }},
      ShareColumn<SizeBucket>(whole.bytes, [](const SizeBucket& bucket) { return bucket.weight.bytes; }),
      {"", kNoTitle, Unit::kBar, "", [=](const SizeBucket& bucket) { return Datum::Share(bucket.weight.count, most); }},
  };
}

std::vector<AnswerColumn<SizeWeight>> SizeColumns(const Weight& whole) {
  constexpr char kWeight[] = "of its allocations";
  return {
      {"bytes", "bytes", Unit::kBytes, kWeight, [](const SizeWeight& size) { return size.weight.bytes; }},
      ShareColumn<SizeWeight>(whole.bytes, [](const SizeWeight& size) { return size.weight.bytes; }),
      {"count", "count", Unit::kCount, kWeight, [](const SizeWeight& size) { return size.weight.count; }},
      {"size_bytes", "size", Unit::kText, "of each", [](const SizeWeight& size) { return size.size; },
       [](const SizeWeight& size) { return absl::StrCat(FormatBytes(size.size), " each"); }},
  };
}

std::vector<AnswerColumn<Location>> LineColumns(const Weight& whole) {
  return {
      {"", "bytes", Unit::kBytes, "", [](const Location& line) { return line.self.bytes; }},
      ShareColumn<Location>(whole.bytes, [](const Location& line) { return line.self.bytes; }),
      {"", "count", Unit::kCount, "", [](const Location& line) { return line.self.count; }},
      CountShareColumn<Location>(whole.count, [](const Location& line) { return line.self.count; }),
      {"", "line", Unit::kText, "", [](const Location& line) { return line.name; }},
  };
}

Document::Rows First(size_t count, bool is_shown) {
  Document::Rows first;
  first.count = count;
  first.layout = JsonLayout::kOneLine;
  first.is_shown = is_shown;
  return first;
}

void AddBuckets(const SizeHistogram& histogram, const Weight& whole, Document* answer) {
  answer->Field("smallest_bytes", histogram.smallest, "sizes of single allocations");
  answer->Field("median_bytes", histogram.median, "sizes of single allocations");
  answer->Field("largest_bytes", histogram.largest, "sizes of single allocations");
  const bool is_shown = !histogram.buckets.empty();
  if (is_shown) {
    answer->Heading("Sizes", absl::StrCat("smallest ", FormatBytes(histogram.smallest), ", median ",
                                          FormatBytes(histogram.median), ", largest ", FormatBytes(histogram.largest)));
  }
  answer->Table("buckets", "by powers of two, ascending, with `bytes` and `count`", BucketColumns(histogram, whole),
                histogram.buckets, First(SIZE_MAX, is_shown));
}

// Those that allocate something; machines get all, with the columns of `table`.
void AddLines(const char* key, const char* title, const std::vector<Location>& lines, size_t top, const Weight& whole,
              bool is_shown, Document* answer) {
  answer->Table(key, "rows as in `table`: the lines that allocate most bytes, and most often",
                LocationColumns(whole.bytes), lines, First(Shown(lines.size(), top), false));
  if (!is_shown) return;
  answer->Heading(title);
  const auto end = std::find_if(lines.begin(), lines.end(), [](const Location& line) { return line.self.count == 0; });
  answer->Table("", "", LineColumns(whole), lines,
                First(std::min(Shown(lines.size(), top), static_cast<size_t>(end - lines.begin())), true));
}

}  // namespace

Document SizesAnswer(const SizesLists& lists, size_t top, const ViewInput& input) {
  const SizeHistogram& histogram = lists.histogram;
  const Weight& whole = input.aggregated->all;
  const bool is_shown = !histogram.buckets.empty();
  Document answer = ViewAnswer("sizes", input);
  AddBuckets(histogram, whole, &answer);
  if (is_shown) {
    answer.Heading("Sizes with most bytes",
                   absl::StrCat("of ", FormatCountOf(histogram.sizes.size(), "size", "different sizes")));
  }
  answer.Table("sizes", "the sizes with most bytes: objects with `size_bytes`, `bytes` and `count`", SizeColumns(whole),
               histogram.sizes, First(Shown(histogram.sizes.size(), top), is_shown));
  AddLines("lines_by_bytes", "Lines that allocate most", lists.by_bytes, top, whole, is_shown, &answer);
  AddLines("lines_by_count", "Lines that allocate most often", lists.by_count, top, whole, is_shown, &answer);
  return answer;
}

}  // namespace gpumem

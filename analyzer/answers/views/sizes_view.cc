// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The histogram of sizes as text.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "answers/views/table_view.h"
#include "base/format.h"

namespace gpumem {
namespace {

constexpr int kBarColumns = 24;

double ShareOfAll(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Anything that is there has at least a mark.
std::string Bar(uint64_t part, uint64_t most, bool utf8) {
  const int columns = part == 0 ? 0 : std::max(1, static_cast<int>(ShareOfAll(part, most) * kBarColumns + 0.5));
  std::string bar;
  for (int i = 0; i < columns; ++i) bar += utf8 ? "\u2588" : "#";
  return bar;
}

std::string RangeText(const SizeBucket& bucket) {
  return absl::StrCat(FormatBytes(bucket.from), " to ", FormatBytes(bucket.to));
}

void AddHistogram(const SizeHistogram& histogram, const Weight& whole, Page* page) {
  page->Gap();
  page->Line(
      {{Tone::kHeading, "Sizes"},
       {Tone::kAside, absl::StrCat("  smallest ", FormatBytes(histogram.smallest), ", median ",
                                   FormatBytes(histogram.median), ", largest ", FormatBytes(histogram.largest))}});
  uint64_t most = 0;
  for (const SizeBucket& bucket : histogram.buckets) most = std::max(most, bucket.weight.count);
  std::vector<Page::Row> rows{{"size", "count", "share", "bytes", "share", ""}};
  for (const SizeBucket& bucket : histogram.buckets) {
    rows.push_back({RangeText(bucket), FormatCount(bucket.weight.count),
                    FormatPercent(ShareOfAll(bucket.weight.count, whole.count)), FormatBytes(bucket.weight.bytes),
                    FormatPercent(ShareOfAll(bucket.weight.bytes, whole.bytes)),
                    Bar(bucket.weight.count, most, page->style().utf8)});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft}, rows);
}

void AddTopSizes(const SizeHistogram& histogram, size_t shown, const Weight& whole, Page* page) {
  page->Gap();
  page->Line({{Tone::kHeading, "Sizes with most bytes"},
              {Tone::kAside, absl::StrCat("  of ", FormatCountOf(histogram.sizes.size(), "size", "different sizes"))}});
  std::vector<Page::Row> rows{{"bytes", "share", "count", "of"}};
  for (size_t i = 0; i < std::min(shown, histogram.sizes.size()); ++i) {
    const SizeWeight& size = histogram.sizes[i];
    rows.push_back({FormatBytes(size.weight.bytes), FormatPercent(ShareOfAll(size.weight.bytes, whole.bytes)),
                    FormatCount(size.weight.count), absl::StrCat(FormatBytes(size.size), " each")});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kLeft}, rows);
}

void AddLines(absl::string_view title, const std::vector<Location>& lines, size_t shown, const Weight& whole,
              Page* page) {
  page->Gap();
  page->Line(title, Tone::kHeading);
  std::vector<Page::Row> rows{{"bytes", "share", "count", "share", "line"}};
  for (size_t i = 0; i < std::min(shown, lines.size()); ++i) {
    const Location& line = lines[i];
    if (line.self.count == 0) break;
    rows.push_back({FormatBytes(line.self.bytes), FormatPercent(ShareOfAll(line.self.bytes, whole.bytes)),
                    FormatCount(line.self.count), FormatPercent(ShareOfAll(line.self.count, whole.count)), line.name});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kLeft}, rows);
}

}  // namespace

void AddSizes(const SizesAnswer& answer, size_t top, const ViewInput& input, Page* page) {
  if (answer.histogram.buckets.empty()) return;
  const size_t shown = top == 0 ? SIZE_MAX : top;
  const Weight& whole = input.aggregated->all;
  AddHistogram(answer.histogram, whole, page);
  AddTopSizes(answer.histogram, shown, whole, page);
  AddLines("Lines that allocate most", answer.by_bytes, shown, whole, page);
  AddLines("Lines that allocate most often", answer.by_count, shown, whole, page);
}

}  // namespace gpumem

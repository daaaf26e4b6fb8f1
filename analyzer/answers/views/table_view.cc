// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/table_view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/shown.h"

namespace gpumem {
namespace {

std::string ShareText(uint64_t part, uint64_t whole) {
  return FormatPercent(whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole));
}

// Has a total of its own beside the weight itself.
bool HasTotal(LocationKind kind) {
  return kind != LocationKind::kThread && kind != LocationKind::kCategory && kind != LocationKind::kComponent;
}

void WriteRows(absl::string_view key, const std::vector<Location>& rows, size_t top, ChunkedText* out,
               JsonWriter* json) {
  json->Key(key);
  json->BeginArray();
  for (size_t i = 0; i < Shown(rows.size(), top); ++i) {
    const Location& row = rows[i];
    json->BeginObject(JsonLayout::kOneLine);
    json->Field("name", row.name);
    json->Field("self_bytes", row.self.bytes);
    json->Field("self_count", row.self.count);
    WriteJsonWeight(row.total, json);
    json->Field("stack_count", row.stacks);
    json->EndObject();
    out->MaybeFlush();
  }
  json->EndArray();
}

}  // namespace

void AddTable(const std::vector<Location>& rows, LocationKind kind, size_t top, const ViewInput& input, Page* page) {
  if (rows.empty()) return;
  const uint64_t whole = input.aggregated->all.bytes;
  const bool has_total = HasTotal(kind);
  std::vector<Align> columns{Align::kRight, Align::kRight, Align::kRight};
  Page::Row heading{has_total ? "self" : "bytes", "share", "count"};
  if (has_total) {
    columns.insert(columns.end(), {Align::kRight, Align::kRight});
    heading.insert(heading.end(), {"total", "share"});
  }
  columns.push_back(Align::kLeft);
  heading.push_back(std::string(LocationKindName(kind)));
  std::vector<Page::Row> table{heading};
  const size_t shown = Shown(rows.size(), top);
  for (size_t i = 0; i < shown; ++i) {
    const Location& row = rows[i];
    Page::Row cells{FormatBytes(row.self.bytes), ShareText(row.self.bytes, whole), FormatCount(row.self.count)};
    if (has_total) {
      cells.push_back(FormatBytes(row.total.bytes));
      cells.push_back(ShareText(row.total.bytes, whole));
    }
    cells.push_back(row.name);
    table.push_back(std::move(cells));
  }
  page->Table(columns, table);
  if (shown == rows.size()) return;
  Weight rest;
  for (size_t i = shown; i < rows.size(); ++i) rest.Add(rows[i].self);
  page->Line(absl::StrCat("  and ", FormatCount(rows.size() - shown), " more with ", FormatBytes(rest.bytes),
                          " of their own: --top 0 shows all"),
             Tone::kAside);
}

void WriteTableJson(const std::vector<Location>& rows, LocationKind kind, size_t top, const ViewInput& input,
                    const TextSink& sink) {
  ChunkedText out(sink);
  JsonWriter json(out.text());
  json.BeginObject();
  WriteJsonViewHead("table", input, &json);
  json.Field("by", LocationKindName(kind));
  WriteRows("rows", rows, top, &out, &json);
  json.EndObject();
  out.text()->push_back('\n');
}

void WriteSizesJson(const SizesAnswer& answer, size_t top, const ViewInput& input, const TextSink& sink) {
  const SizeHistogram& histogram = answer.histogram;
  ChunkedText out(sink);
  JsonWriter json(out.text());
  json.BeginObject();
  WriteJsonViewHead("sizes", input, &json);
  json.Field("smallest_bytes", histogram.smallest);
  json.Field("median_bytes", histogram.median);
  json.Field("largest_bytes", histogram.largest);
  json.Key("buckets");
  json.BeginArray();
  for (const SizeBucket& bucket : histogram.buckets) {
    json.BeginObject(JsonLayout::kOneLine);
    json.Field("from_bytes", bucket.from);
    json.Field("below_bytes", bucket.to);
    WriteJsonWeight(bucket.weight, &json);
    json.EndObject();
  }
  json.EndArray();
  json.Key("sizes");
  json.BeginArray();
  for (size_t i = 0; i < Shown(histogram.sizes.size(), top); ++i) {
    json.BeginObject(JsonLayout::kOneLine);
    json.Field("size_bytes", histogram.sizes[i].size);
    WriteJsonWeight(histogram.sizes[i].weight, &json);
    json.EndObject();
    out.MaybeFlush();
  }
  json.EndArray();
  WriteRows("lines_by_bytes", answer.by_bytes, top, &out, &json);
  WriteRows("lines_by_count", answer.by_count, top, &out, &json);
  json.EndObject();
  out.text()->push_back('\n');
}

}  // namespace gpumem

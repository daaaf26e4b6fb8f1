// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/diff_page.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format.h"

namespace gpumem {
namespace {

std::string SideText(const RunFacts& facts) {
  std::string text = absl::StrCat(facts.name, ", ", facts.moment);
  if (facts.has_moment) absl::StrAppend(&text, " at ", FormatTime(facts.time_ns));
  if (facts.step != 0) absl::StrAppend(&text, ", step ", facts.step);
  if (!facts.device_name.empty()) absl::StrAppend(&text, ", GPU ", facts.device, " (", facts.device_name, ")");
  return text;
}

// "32 x 96 MiB", "-" where there is nothing.
std::string BlocksText(uint64_t count, uint64_t smallest, uint64_t largest) {
  if (count == 0) return "-";
  if (smallest == largest) return absl::StrCat(FormatCount(count), " x ", FormatBytes(largest));
  return FormatCountOf(count, "block", "blocks");
}

void AddRows(absl::string_view title, absl::string_view last, const std::vector<DiffRow>& rows, size_t top,
             bool with_blocks, Page* page) {
  std::vector<Page::Row> table{{"change", "A", "B", "", std::string(last)}};
  if (with_blocks) table[0] = {"change", "A", "B", "", "blocks of A", "blocks of B", std::string(last)};
  size_t same = 0, left_out = 0;
  int64_t rest = 0;
  for (const DiffRow& row : rows) {
    if (row.change() == RowChange::kSame && row.uses.a_count == row.uses.b_count && with_blocks) {
      ++same;
      continue;
    }
    if (top != 0 && table.size() > top) {
      ++left_out;
      rest += row.delta();
      continue;
    }
    const absl::string_view word = row.change() == RowChange::kNew    ? "new"
                                   : row.change() == RowChange::kGone ? "gone"
                                                                      : "";
    Page::Row cells{SignedBytes(row.delta()), FormatBytesAligned(row.uses.a_bytes),
                    FormatBytesAligned(row.uses.b_bytes), std::string(word)};
    if (with_blocks) {
      cells.push_back(BlocksText(row.uses.a_count, row.uses.a_smallest, row.uses.a_largest));
      cells.push_back(BlocksText(row.uses.b_count, row.uses.b_smallest, row.uses.b_largest));
    }
    cells.push_back(row.was.empty() ? row.name : absl::StrCat(row.name, "  (was ", row.was, ")"));
    table.push_back(std::move(cells));
  }
  page->Gap();
  page->Line(title, Tone::kHeading);
  std::vector<Align> columns{Align::kRight, Align::kRight, Align::kRight, Align::kLeft};
  columns.resize(with_blocks ? 6 : 4, Align::kRight);
  columns.push_back(Align::kLeft);
  if (table.size() > 1) page->Table(columns, table);
  if (left_out > 0)
    page->Line(absl::StrCat("  ", FormatCount(left_out), " more, ", SignedBytes(rest), " in all (--top 0 shows them)"),
               Tone::kAside);
  if (same > 0) page->Line(absl::StrCat("  ", FormatCount(same), " equal"), Tone::kAside);
}

void AddSettings(const Diff& diff, Page* page) {
  for (const SettingChange& change : diff.settings) {
    const auto value = [](const std::string& text) { return text.empty() ? std::string("(none)") : text; };
    page->Paragraph("changed ", absl::StrCat(change.what, ": ", value(change.a), " -> ", value(change.b)));
  }
}

void AddRenamed(const Diff& diff, size_t top, Page* page) {
  if (diff.renamed.empty()) return;
  page->Gap();
  page->Line("Matched under another name", Tone::kHeading);
  size_t shown = 0;
  for (const Renamed& each : diff.renamed) {
    if (top != 0 && shown++ == top) break;
    page->Line(absl::StrCat("  ", RenamedKindName(each.kind), "  ", each.was, " -> ", each.now));
  }
  if (top != 0 && diff.renamed.size() > top)
    page->Line(absl::StrCat("  ", FormatCount(diff.renamed.size() - top), " more"), Tone::kAside);
}

}  // namespace

std::string SignedBytes(int64_t bytes) {
  if (bytes == 0) return "=";
  return absl::StrCat(bytes < 0 ? "-" : "+", FormatBytes(static_cast<uint64_t>(std::abs(bytes))));
}

void AddDiff(const Diff& diff, size_t top, bool by_stack, Page* page) {
  page->Paragraph("", diff.headline, diff.doubts.empty() ? Tone::kHeading : Tone::kWarning);
  page->Gap();
  page->Paragraph("A  ", SideText(diff.a));
  page->Paragraph("B  ", SideText(diff.b));
  AddSettings(diff, page);
  AddRows("Totals", "", diff.series, 0, /*with_blocks=*/false, page);
  AddRows("By category", "category", diff.categories, 0, /*with_blocks=*/true, page);
  AddRows("By module (layers folded)", "module", diff.modules, top, /*with_blocks=*/true, page);
  AddRows("By line", "line", diff.lines, top, /*with_blocks=*/true, page);
  if (by_stack) AddRows("By stack", "line and callers", diff.stacks, top, /*with_blocks=*/true, page);
  AddRenamed(diff, top, page);
}

}  // namespace gpumem

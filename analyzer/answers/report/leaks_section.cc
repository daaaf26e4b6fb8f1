// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "answers/report/leak_words.h"
#include "answers/report/sections.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
#include "ledger/stacks/names.h"
#include "render/sparkline.h"

namespace gpumem {
namespace {

constexpr size_t kCurve = 16;  // characters

// "at the end", "when the trace stops", "at 12.3 s": whichever the numbers stand for.
std::string WhenText(const ReportInput& input) {
  if (input.asked.to_ns != UINT64_MAX) return absl::StrCat("at ", FormatTime(input.Since(input.window_end_ns())));
  if (input.analysis->program_end_ns != 0) return "when the program's own code ended";
  return input.analysis->complete ? "at the end" : "where the trace stops";
}

void AddAlive(const LiveSet& live, absl::string_view what, const ReportInput& input, const TextOptions& options,
              Page* page) {
  if (live.stacks.empty()) return;
  page->Line(absl::StrCat("  ", what, ": ", FormatBytes(live.bytes), " in ",
                          FormatCountOf(live.block_count, "block", "blocks")));
  AddStackRows(live.stacks, {"what is alive", live.bytes}, input, options, page);
}

// Between two times that were asked for.
void AddGrowth(const LeakReport& leaks, const ReportInput& input, const TextOptions& options, Page* page) {
  if (leaks.growth.empty()) return;
  uint64_t bytes = 0;
  for (const StackUse& use : leaks.growth) bytes += use.bytes;
  page->Line(absl::StrCat("  more alive at ", FormatTime(input.Since(leaks.growth_to_ns)), " than at ",
                          FormatTime(input.Since(leaks.growth_from_ns)), ": ", FormatBytes(bytes)));
  AddStackRows(leaks.growth, {"the growth", bytes}, input, options, page);
}

std::string Curve(const LeakRow& row, bool utf8) {
  std::vector<uint64_t> values;
  uint64_t top = 0;
  const size_t count = row.bytes.size();
  for (size_t i = 0; i < std::min(kCurve, count); ++i) {
    const int64_t value = row.bytes[(i + 1) * count / std::min(kCurve, count) - 1];
    values.push_back(static_cast<uint64_t>(std::max<int64_t>(value, 0)));
    top = std::max(top, values.back());
  }
  return Sparkline(values, top, utf8);
}

// Rows that grow, or grew, with what each needs said of it below the table.
void AddRows(const LeakDevice& device, const LeakFindings& findings, const TextOptions& options, Page* page) {
  std::vector<Page::Row> table{{"per iteration", "grown", "blocks", "since", "status", "", "allocated by"}};
  std::vector<std::string> remarks;
  uint64_t expected = 0, expected_bytes = 0, left_out = 0;
  for (const LeakRow& row : device.rows) {
    if (row.status == LeakStatus::kExpected) {
      ++expected;
      expected_bytes += row.grown_bytes;
      continue;
    }
    if (options.top != 0 && table.size() > options.top) {
      ++left_out;
      continue;
    }
    const bool goes_on = row.status == LeakStatus::kGrowing;
    table.push_back({goes_on ? RateText(row.bytes_per_iteration) : "-", FormatBytes(row.grown_bytes),
                     row.grown_blocks == 0 ? "" : FormatCount(row.grown_blocks),
                     absl::StrCat(IterationWord(findings, row), " ", FormatCount(row.since_iteration)),
                     std::string(LeakStatusName(row.status)), Curve(row, page->style().utf8), LeakSite(row)});
    if (std::string remark = LeakRemark(row, findings); goes_on && !remark.empty())
      remarks.push_back(std::move(remark));
  }
  if (table.size() > 1) {
    page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft, Align::kLeft, Align::kLeft},
                table);
  }
  if (left_out > 0)
    page->Line(absl::StrCat("  and ", FormatCountOf(left_out, "other line", "other lines"), "; --top 0 lists all"));
  for (const std::string& remark : remarks) page->Paragraph("  - ", remark);
  if (expected > 0) {
    page->Line(
        absl::StrCat("  Expected growth: ", FormatBytes(expected_bytes), " in ",
                     FormatCountOf(expected, "line", "lines"), " (parameters, gradients, optimizer state, workspaces)"),
        Tone::kAside);
  }
  if (device.suppressed > 0)
    page->Line(absl::StrCat("  Suppressed: ", FormatCountOf(device.suppressed, "line", "lines")), Tone::kAside);
}

}  // namespace

void AddLeaks(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options, Page* page) {
  const LeakReport& leaks = device.leaks;
  page->Gap();
  if (input.leaks != nullptr) {
    const LeakDevice* const found = LeaksOf(*input.leaks, device.device);
    const bool grows = found != nullptr && !found->rows.empty() && found->rows[0].status == LeakStatus::kGrowing;
    page->Line({{grows ? Tone::kAlarm : Tone::kHeading,
                 absl::StrCat(DeviceLabel(device.device), ": ", LeakHeadline(*input.leaks, device.device))}});
    for (const LeakLoop& loop : input.leaks->loops) page->Line(absl::StrCat("  ", LoopText(loop, input)), Tone::kAside);
    if (found != nullptr) AddRows(*found, *input.leaks, options, page);
    page->Gap();
  }
  const uint64_t alive = leaks.at_end_torch.bytes + leaks.at_end_cuda.bytes;
  page->Line({{Tone::kHeading, absl::StrCat("Not freed on ", DeviceLabel(device.device), " ", WhenText(input), ": ",
                                            FormatBytes(alive))}});
  TextOptions list = options;
  if (options.detail == Detail::kBrief) {
    list.top = std::min<size_t>(options.top, 3);
    list.below = options.full_stacks;
  }
  AddAlive(leaks.at_end_torch, "PyTorch blocks", input, list, page);
  AddAlive(leaks.at_end_cuda, "other CUDA memory", input, list, page);
  if (leaks.freed_by_teardown > 0)
    page->Line(absl::StrCat("  freed by the teardown that followed: ", FormatBytes(leaks.freed_by_teardown)));
  AddGrowth(leaks, input, list, page);
  if (leaks.unknown_frees > 0) {
    page->Line(absl::StrCat("  ", FormatCountOf(leaks.unknown_frees, "free", "frees"),
                            " of addresses that this trace never saw allocated"));
  }
}

}  // namespace gpumem

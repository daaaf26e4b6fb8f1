// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "report/names.h"
#include "report/sections.h"
#include "report/stack_rows.h"

namespace gpumem {
namespace {

// "at the end", "when the trace stops", "at 12.3 s": whichever the numbers stand for.
std::string WhenText(const ReportInput& input) {
  if (input.asked.to_ns != UINT64_MAX) return absl::StrCat("at ", FormatTime(input.Since(input.window_end_ns())));
  return input.analysis->complete ? "at the end" : "where the trace stops";
}

void AddAlive(const LiveSet& live, absl::string_view what, const ReportInput& input, const TextOptions& options,
              Page* page) {
  if (live.stacks.empty()) return;
  page->Line(absl::StrCat("  ", what, ": ", FormatBytes(live.bytes), " in ",
                          FormatCountOf(live.block_count, "block", "blocks")));
  AddStackRows(live.stacks, {"what is alive", live.bytes}, input, options, page);
}

void AddGrowth(const LeakReport& leaks, const ReportInput& input, const TextOptions& options, Page* page) {
  if (leaks.growth.empty()) return;
  uint64_t bytes = 0;
  for (const StackUse& use : leaks.growth) bytes += use.bytes;
  page->Line(absl::StrCat("  grew from ", FormatTime(input.Since(leaks.growth_from_ns)), " to ",
                          FormatTime(input.Since(leaks.growth_to_ns)), ": ", FormatBytes(bytes), " more alive"));
  AddStackRows(leaks.growth, {"the growth", bytes}, input, options, page);
}

}  // namespace

void AddLeaks(const DeviceAnalysis& device, const ReportInput& input, const TextOptions& options, Page* page) {
  const LeakReport& leaks = device.leaks;
  const uint64_t alive = leaks.at_end_torch.bytes + leaks.at_end_cuda.bytes;
  page->Gap();
  page->Line({{Tone::kHeading, absl::StrCat("Not freed on ", DeviceLabel(device.device), " ", WhenText(input), ": ",
                                            FormatBytes(alive))}});
  TextOptions list = options;
  if (options.detail == Detail::kBrief) {
    list.top = std::min<size_t>(options.top, 3);
    list.below = options.full_stacks;
  }
  AddAlive(leaks.at_end_torch, "PyTorch blocks", input, list, page);
  AddAlive(leaks.at_end_cuda, "other CUDA memory", input, list, page);
  AddGrowth(leaks, input, list, page);
  if (leaks.unknown_frees > 0) {
    page->Line(absl::StrCat("  ", FormatCountOf(leaks.unknown_frees, "free", "frees"),
                            " of addresses that this trace never saw allocated"));
  }
}

}  // namespace gpumem

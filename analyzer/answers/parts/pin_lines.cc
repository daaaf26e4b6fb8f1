// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/pin_lines.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
#include "ledger/stacks/stack_view.h"

namespace gpumem {

std::vector<PinLine> PinLines(const std::vector<PinGroup>& groups, const ReportInput& input) {
  const auto site_of = [&](uint64_t stack) {
    return ViewStack(input.stacks->Frames(stack), "", input.analysis->process.working_directory).site;
  };
  std::map<std::set<std::string>, PinLine> by_sites;
  for (const PinGroup& group : groups) {
    const std::string first = site_of(group.stack_ids.front());
    std::set<std::string> sites{first};
    for (size_t i = 1; i < group.stack_ids.size(); ++i) sites.insert(site_of(group.stack_ids[i]));
    const auto [place, is_new] = by_sites.try_emplace(sites);
    PinLine& line = place->second;
    if (is_new) {
      line.stack_id = group.stack_ids.front();
      line.group.oldest_ns = group.oldest_ns;
      line.site = first;
      sites.erase(first);
      line.others.assign(sites.begin(), sites.end());
    }
    line.group.blocks += group.blocks;
    line.group.block_bytes += group.block_bytes;
    line.group.segments += group.segments;
    line.group.returnable += group.returnable;
    line.group.pages |= group.pages;
    line.group.oldest_ns = std::min(line.group.oldest_ns, group.oldest_ns);
  }
  std::vector<PinLine> lines;
  for (auto& [sites, line] : by_sites) lines.push_back(std::move(line));
  std::stable_sort(lines.begin(), lines.end(),
                   [](const PinLine& a, const PinLine& b) { return a.group.returnable > b.group.returnable; });
  return lines;
}

void AddPinLines(const std::vector<PinLine>& lines, uint64_t time_ns, const ReportInput& input,
                 const TextOptions& options, Document* answer) {
  const size_t shown = options.top == 0 ? lines.size() : std::min(options.top, lines.size());
  for (size_t i = 0; i < shown; ++i) {
    AddOneStack(absl::StrCat("  ", PinText(lines[i].group, time_ns), "  "), lines[i].stack_id, "", input, options,
                answer);
    if (!lines[i].others.empty())
      answer->Line({{Tone::kAside, absl::StrCat("    together with ", absl::StrJoin(lines[i].others, ", "))}});
  }
  if (shown == lines.size()) return;
  answer->Line(
      {{Tone::kAside, absl::StrCat("  and ", FormatCountOf(lines.size() - shown, "more line", "more lines"))}});
}

std::string PinText(const PinGroup& group, uint64_t time_ns) {
  return absl::StrCat(FormatBytes(group.block_bytes), " in ", FormatCountOf(group.blocks, "block", "blocks"),
                      group.blocks == 1 ? " keeps " : " keep ", FormatBytes(group.returnable), " in ",
                      group.pages ? FormatCountOf(group.segments, "page", "pages")
                                  : FormatCountOf(group.segments, "segment", "segments"),
                      group.blocks == 1 ? " (" : " (up to ", FormatTime(time_ns - std::min(time_ns, group.oldest_ns)),
                      " old)");
}

uint64_t ReturnableBytes(const std::vector<PinGroup>& groups) {
  uint64_t bytes = 0;
  for (const PinGroup& group : groups) bytes += group.returnable;
  return bytes;
}

}  // namespace gpumem

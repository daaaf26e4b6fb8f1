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

void AddListOfPinLines(absl::string_view key, absl::string_view meaning, const std::vector<PinGroup>& groups,
                       size_t top, const ReportInput& input, Document* answer) {
  constexpr char kBlocks[] = "such blocks of the line, their bytes, and how many segments or pages they keep";
  std::vector<AnswerColumn<PinLine>> columns = {
      {"blocks", kBlocks, [](const PinLine& line) { return line.group.blocks; }},
      {"block_bytes", kBlocks, [](const PinLine& line) { return line.group.block_bytes; }},
      {"segments", kBlocks, [](const PinLine& line) { return line.group.segments; }},
      {"returnable_bytes", "what CUDA would get back", [](const PinLine& line) { return line.group.returnable; }},
      {"oldest_ns", "", [&input](const PinLine& line) { return input.Since(line.group.oldest_ns); }},
      {"other_lines", "sites of the lines that keep the same segments together with this one; empty for most",
       [](const PinLine& line) {
         return Datum::List({line.others.begin(), line.others.end()});
       }},
  };
  AppendStackColumns<PinLine>([](const PinLine& line) { return StackKey{line.stack_id, ""}; }, input, &columns);
  std::vector<PinLine> lines = PinLines(groups, input);
  Document::Rows first;
  first.count = Shown(lines.size(), top);
  answer->Table(key, meaning, std::move(columns), std::move(lines), first);
}

void AddListOfPins(absl::string_view key, absl::string_view meaning, const std::vector<PinningBlock>& pins, size_t top,
                   const ReportInput& input, Document* answer) {
  constexpr char kSegment[] = "the segment", kBlock[] = "the block";
  const auto address = [](uint64_t at) { return absl::StrCat("0x", absl::Hex(at)); };
  std::vector<AnswerColumn<PinningBlock>> columns = {
      {"segment_address", kSegment, [address](const PinningBlock& pin) { return address(pin.segment_address); }},
      {"segment_bytes", kSegment, [](const PinningBlock& pin) { return pin.segment_bytes; }},
      {"segment_free_bytes", "what no block uses in it", [](const PinningBlock& pin) { return pin.segment_free; }},
      {"block_address", kBlock, [address](const PinningBlock& pin) { return address(pin.block_address); }},
      {"block_bytes", kBlock, [](const PinningBlock& pin) { return pin.block_bytes; }},
      {"blocks_in_segment", "1: freeing this block alone would return the whole segment",
       [](const PinningBlock& pin) { return pin.blocks_in_segment; }},
      {"returnable_bytes", "", [](const PinningBlock& pin) { return pin.returnable; }},
      {"allocated_ns", "when the block was allocated",
       [&input](const PinningBlock& pin) { return input.Since(pin.allocated_ns); }},
  };
  AppendStackColumns<PinningBlock>([](const PinningBlock& pin) { return StackKey{pin.stack_id, ""}; }, input, &columns);
  Document::Rows first;
  first.count = Shown(pins.size(), top);
  answer->Table(key, meaning, std::move(columns), pins, first);
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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/stack_rows.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

void AddUse(const StackUse& use, StackGroup* group) {
  const bool first = group->stacks == 0;
  group->use.bytes += use.bytes;
  group->use.count += use.count;
  group->use.oldest_ns = first ? use.oldest_ns : std::min(group->use.oldest_ns, use.oldest_ns);
  group->use.newest_ns = std::max(group->use.newest_ns, use.newest_ns);
  ++group->stacks;
}

StackGroup StartGroup(StackView view, const StackUse& use) {
  StackGroup group{std::move(view), use, 0};
  group.use.bytes = group.use.count = 0;
  return group;
}

// Callers in one line: "<- train.py:88 GPT.forward <- train.py:130 main", as many as fit.
std::string CallerLine(const StackView& view, const TextStyle& style, int room) {
  std::string line;
  for (const std::string& caller : view.callers) {
    const std::string next = absl::StrCat(line, line.empty() ? "" : " ", style.arrow(), " ", caller);
    if (!line.empty() && DisplayWidth(next) > room) {
      if (DisplayWidth(line) + 1 + DisplayWidth(style.ellipsis()) <= room)
        absl::StrAppend(&line, " ", style.ellipsis());
      break;
    }
    line = next;
  }
  return line;
}

// What stands below a site, at `indent`.
void AddBelow(const StackGroup& group, int indent, const ReportInput& input, const TextOptions& options, Page* page) {
  const std::string blank(static_cast<size_t>(indent), ' ');
  if (options.full_stacks) {
    const std::string& folder = input.analysis->process.working_directory;
    for (const std::string& frame : ListFrames(input.stacks->Frames(group.use.stack_id), options.native, folder)) {
      page->Line({{Tone::kAside, absl::StrCat(blank, frame)}});
    }
    return;
  }
  const int room = page->style().width - indent;
  if (options.detail == Detail::kBrief) {
    const std::string between = group.view.through.empty() || group.view.callers.empty() ? "" : " ";
    const std::string below = absl::StrCat(group.view.through, between, CallerLine(group.view, page->style(), room));
    if (!below.empty() && options.below) page->Line({{Tone::kAside, absl::StrCat(blank, below)}});
    return;
  }
  if (!group.view.through.empty()) page->Line({{Tone::kAside, absl::StrCat(blank, group.view.through)}});
  const std::string callers = CallerLine(group.view, page->style(), room);
  if (!callers.empty()) page->Line({{Tone::kAside, absl::StrCat(blank, callers)}});
}

std::string SharePart(uint64_t bytes, uint64_t total) {
  if (total == 0) return "";
  return PadLeft(FormatPercent(static_cast<double>(bytes) / static_cast<double>(total)), 6);
}

struct Widths {
  int bytes = 9, count = 6;
};

std::string RowStart(absl::string_view bytes, absl::string_view share, absl::string_view count, const Widths& widths) {
  return absl::StrCat("  ", PadLeft(bytes, widths.bytes), share.empty() ? "" : " ", share, "  ",
                      PadLeft(count, widths.count), "  ");
}

Widths Measured(const std::vector<StackGroup>& groups, size_t shown, const StackListWords& words) {
  Widths widths;
  widths.count = DisplayWidth(words.counted);
  for (size_t i = 0; i < shown; ++i) {
    widths.bytes = std::max(widths.bytes, DisplayWidth(FormatBytes(groups[i].use.bytes)));
    widths.count = std::max(widths.count, DisplayWidth(FormatCount(groups[i].use.count)));
  }
  return widths;
}

void AddRest(const std::vector<StackGroup>& groups, size_t shown, const StackListWords& words, const Widths& widths,
             Page* page) {
  if (shown == groups.size()) return;
  uint64_t bytes = 0, count = 0;
  for (size_t i = shown; i < groups.size(); ++i) {
    bytes += groups[i].use.bytes;
    count += groups[i].use.count;
  }
  page->Line({{Tone::kAside,
               absl::StrCat(RowStart(FormatBytes(bytes), SharePart(bytes, words.total), FormatCount(count), widths),
                            "in ", FormatCountOf(groups.size() - shown, "smaller entry", "smaller entries"))}});
}

}  // namespace

std::vector<StackGroup> GroupStacks(const std::vector<StackUse>& stacks, const ReportInput& input, bool by_stack) {
  std::vector<StackGroup> groups;
  std::map<std::string, size_t> by_site;
  const std::string& folder = input.analysis->process.working_directory;
  for (size_t i = 0; i < stacks.size(); ++i) {
    const StackUse& use = stacks[i];
    const bool looked_up = i < kMaxStacksGrouped;
    StackView view;
    view.site = "(smaller stacks)";
    if (looked_up) view = ViewStack(input.stacks->Frames(use.stack_id), use.api, folder);
    size_t place = groups.size();
    if (!by_stack || !looked_up) place = by_site.try_emplace(view.site, groups.size()).first->second;
    if (place == groups.size()) groups.push_back(StartGroup(std::move(view), use));
    AddUse(use, &groups[place]);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const StackGroup& a, const StackGroup& b) { return a.use.bytes > b.use.bytes; });
  return groups;
}

void AddStackRows(const std::vector<StackUse>& stacks, const StackListWords& words, const ReportInput& input,
                  const TextOptions& options, Page* page) {
  const std::vector<StackGroup> groups = GroupStacks(stacks, input, options.by_stack);
  const size_t shown = options.top == 0 ? groups.size() : std::min(options.top, groups.size());
  const Widths widths = Measured(groups, shown, words);
  const std::string share = words.total == 0 ? "" : PadLeft("share", 6);
  const std::string heading = RowStart("bytes", share, words.counted, widths);
  const int indent = DisplayWidth(heading) + 2;
  page->Line({{Tone::kAside, absl::StrCat(heading, words.who)}});
  for (size_t i = 0; i < shown; ++i) {
    const StackGroup& group = groups[i];
    const std::string start = RowStart(FormatBytes(group.use.bytes), SharePart(group.use.bytes, words.total),
                                       FormatCount(group.use.count), widths);
    const std::string more = group.stacks > 1 ? absl::StrCat("  (", FormatCount(group.stacks), " stacks)") : "";
    page->Line({{Tone::kPlain, start}, {Tone::kHeading, group.view.site}, {Tone::kAside, more}});
    AddBelow(group, indent, input, options, page);
  }
  AddRest(groups, shown, words, widths, page);
}

void AddOneStack(absl::string_view lead, uint64_t stack_id, absl::string_view api, const ReportInput& input,
                 const TextOptions& options, Page* page) {
  StackGroup group;
  group.use.stack_id = stack_id;
  group.view = ViewStack(input.stacks->Frames(stack_id), api, input.analysis->process.working_directory);
  page->Line({{Tone::kPlain, std::string(lead)}, {Tone::kHeading, group.view.site}});
  AddBelow(group, DisplayWidth(lead), input, options, page);
}

}  // namespace gpumem

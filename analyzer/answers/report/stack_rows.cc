// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/stack_rows.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "answers/report/sections.h"
#include "base/format.h"
#include "base/utf8.h"
#include "ledger/stacks/frame_class.h"
#include "ledger/stacks/names.h"
#include "render/cells.h"

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
void AddBelow(const StackGroup& group, int indent, const ReportInput& input, const TextOptions& options,
              const TextStyle& style, Document* lines) {
  const std::string blank(static_cast<size_t>(indent), ' ');
  if (options.full_stacks) {
    const std::string& folder = input.analysis->process.working_directory;
    for (const std::string& frame : ListFrames(input.stacks->Frames(group.use.stack_id), options.native, folder)) {
      lines->Line({{Tone::kAside, absl::StrCat(blank, frame)}});
    }
    return;
  }
  const int room = style.width - indent;
  if (options.detail == Detail::kBrief) {
    const std::string between = group.view.through.empty() || group.view.callers.empty() ? "" : " ";
    const std::string below = absl::StrCat(group.view.through, between, CallerLine(group.view, style, room));
    if (!below.empty() && options.below) lines->Line({{Tone::kAside, absl::StrCat(blank, below)}});
    return;
  }
  if (!group.view.through.empty()) lines->Line({{Tone::kAside, absl::StrCat(blank, group.view.through)}});
  const std::string callers = CallerLine(group.view, style, room);
  if (!callers.empty()) lines->Line({{Tone::kAside, absl::StrCat(blank, callers)}});
}

struct Widths {
  int bytes = 9, share = 6, count = 6;
};

std::string SharePart(uint64_t bytes, uint64_t total, const Widths& widths) {
  return total == 0 ? "" : PadLeft(ShareCell(bytes, total), widths.share);
}

std::string RowStart(absl::string_view bytes, absl::string_view share, absl::string_view count, const Widths& widths) {
  return absl::StrCat("  ", PadLeft(bytes, widths.bytes), share.empty() ? "" : " ", share, "  ",
                      PadLeft(count, widths.count), "  ");
}

Widths Measured(const std::vector<StackGroup>& groups, size_t shown, const StackListWords& words) {
  Widths widths;
  widths.share = DisplayWidth(ShareTitle(words.total)) + 1;
  widths.count = DisplayWidth(words.counted);
  for (size_t i = 0; i < shown; ++i) {
    widths.bytes = std::max(widths.bytes, DisplayWidth(FormatBytes(groups[i].use.bytes)));
    widths.count = std::max(widths.count, DisplayWidth(FormatCount(groups[i].use.count)));
  }
  return widths;
}

void AddRest(const std::vector<StackGroup>& groups, size_t shown, const StackListWords& words, const Widths& widths,
             Document* lines) {
  if (shown == groups.size()) return;
  uint64_t bytes = 0, count = 0;
  for (size_t i = shown; i < groups.size(); ++i) {
    bytes += groups[i].use.bytes;
    count += groups[i].use.count;
  }
  lines->Line(
      {{Tone::kAside,
        absl::StrCat(RowStart(FormatBytes(bytes), SharePart(bytes, words.total, widths), FormatCount(count), widths),
                     "in ", FormatCountOf(groups.size() - shown, "smaller entry", "smaller entries"))}});
}

Document StackLines(const std::vector<StackUse>& stacks, const StackListWords& words, const ReportInput& input,
                    const TextOptions& options, const TextStyle& style) {
  Document lines;
  const std::vector<StackGroup> groups = GroupStacks(stacks, input, options.by_stack);
  const size_t shown = Shown(groups.size(), options.top);
  const Widths widths = Measured(groups, shown, words);
  const std::string share = words.total == 0 ? "" : PadLeft(ShareTitle(words.total), widths.share);
  const std::string heading = RowStart("bytes", share, words.counted, widths);
  const int indent = DisplayWidth(heading) + 2;
  lines.Line({{Tone::kAside, absl::StrCat(heading, words.who)}});
  for (size_t i = 0; i < shown; ++i) {
    const StackGroup& group = groups[i];
    const std::string start = RowStart(FormatBytes(group.use.bytes), SharePart(group.use.bytes, words.total, widths),
                                       FormatCount(group.use.count), widths);
    const std::string more = group.stacks > 1 ? absl::StrCat("  (", FormatCount(group.stacks), " stacks)") : "";
    lines.Line({{Tone::kPlain, start}, {Tone::kHeading, group.view.site}, {Tone::kAside, more}});
    AddBelow(group, indent, input, options, style, &lines);
  }
  AddRest(groups, shown, words, widths, &lines);
  return lines;
}

Datum FrameDatum(const ResolvedFrame& frame) {
  return Datum::Object({{"function", frame.function, "name; full for native frames"},
                        {"file", frame.file},
                        {"line", frame.line, "0 = not known"},
                        {"module", frame.module, "path of the native module, \"\" for Python"},
                        {"python", frame.python, "true for a Python frame"},
                        {"inlined", frame.inlined, "true for an inlined native function"},
                        {"telling", IsTelling(frame),
                         "whether `--full-stacks` lists the frame: Python, and native frames that say something of "
                         "their own"}},
                       JsonLayout::kOneLine);
}

// One of a list for machines; its frames may be in an earlier one.
struct ListedStack {
  const StackUse* use;
  bool has_frames;
};

constexpr char kAllocationTimes[] = "times of the oldest and newest allocation in it";

std::vector<AnswerColumn<ListedStack>> ListColumns(const ReportInput& input) {
  std::vector<AnswerColumn<ListedStack>> columns = {
      {"bytes", "", Unit::kBytes, "live memory of the stack (or of the whole set)",
       [](const ListedStack& stack) { return stack.use->bytes; }},
      {"count", "", Unit::kCount, "blocks", [](const ListedStack& stack) { return stack.use->count; }},
      {"layer", "", Unit::kText, "`torch`, `runtime`, `driver`",
       [](const ListedStack& stack) { return LayerName(stack.use->layer); }},
      {"memory", "", Unit::kText,
       "`device`, `stream_ordered`, `managed`, `host_pinned`, `array`, `virtual`, `physical`, `physical_host`, "
       "`multicast`, `external`",
       [](const ListedStack& stack) { return MemoryName(stack.use->memory); }},
      {"api", "", Unit::kText, "the function that allocated, where all of them agree",
       [](const ListedStack& stack) { return stack.use->api; }},
      {"oldest_ns", "", Unit::kTime, kAllocationTimes,
       [&input](const ListedStack& stack) { return input.Since(stack.use->oldest_ns); }},
      {"newest_ns", "", Unit::kTime, kAllocationTimes,
       [&input](const ListedStack& stack) { return input.Since(stack.use->newest_ns); }},
  };
  if (!input.analysis->marks.empty()) {
    columns.push_back({"where", "", Unit::kObject, "",
                       [&input](const ListedStack& stack) { return PlaceDatum(stack.use->newest_ns, input); }});
  }
  AppendStackColumns<ListedStack>(
      [](const ListedStack& stack) {
        return StackKey{stack.use->stack_id, stack.use->api};
      },
      input, &columns);
  columns.back().value = [&input](const ListedStack& stack) {
    return stack.has_frames ? FramesDatum(stack.use->stack_id, input) : Datum::Absent();
  };
  return columns;
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

const StackGroup* TopLine(const std::vector<StackGroup>& groups) {
  const auto line =
      std::find_if(groups.begin(), groups.end(), [](const StackGroup& group) { return !group.view.is_workspace; });
  return line == groups.end() ? nullptr : &*line;
}

Datum SiteDatum(const StackKey& stack, const ReportInput& input) {
  return ViewStack(input.stacks->Frames(stack.id), stack.api, input.analysis->process.working_directory).site;
}

Datum HashDatum(uint64_t stack_id, const ReportInput& input) {
  const uint64_t hash = input.stacks->Hash(stack_id);
  return Datum::If(hash != 0, absl::StrCat(absl::Hex(hash, absl::kZeroPad16)));
}

Datum FramesDatum(uint64_t stack_id, const ReportInput& input) {
  std::vector<Datum> frames;
  for (const ResolvedFrame& frame : input.stacks->Frames(stack_id)) frames.push_back(FrameDatum(frame));
  return Datum::List(std::move(frames));
}

void AddStackRows(const std::vector<StackUse>& stacks, const StackListWords& words, const ReportInput& input,
                  const TextOptions& options, Document* answer) {
  answer->Shown([&stacks, words, &input, options](const TextStyle& style) {
    return StackLines(stacks, words, input, options, style);
  });
}

void AddStackRows(std::vector<StackUse>&& stacks, const StackListWords& words, const ReportInput& input,
                  const TextOptions& options, Document* answer) {
  answer->Shown([stacks = std::move(stacks), words, &input, options](const TextStyle& style) {
    return StackLines(stacks, words, input, options, style);
  });
}

void AddOneStack(absl::string_view lead, uint64_t stack_id, absl::string_view api, const ReportInput& input,
                 const TextOptions& options, Document* answer) {
  answer->Shown([=, &input, lead = std::string(lead), api = std::string(api)](const TextStyle& style) {
    Document lines;
    StackGroup group;
    group.use.stack_id = stack_id;
    group.view = ViewStack(input.stacks->Frames(stack_id), api, input.analysis->process.working_directory);
    lines.Line({{Tone::kPlain, lead}, {Tone::kHeading, group.view.site}});
    AddBelow(group, DisplayWidth(lead), input, options, style, &lines);
    return lines;
  });
}

void AddStacks(absl::string_view key, const std::vector<StackUse>& stacks, size_t top, const ReportInput& input,
               Document* answer, std::set<uint64_t>* written, absl::string_view meaning) {
  std::vector<ListedStack> rows;
  for (size_t i = 0; i < Shown(stacks.size(), top); ++i) {
    const uint64_t hash = input.stacks->Hash(stacks[i].stack_id);
    rows.push_back({&stacks[i], written == nullptr || hash == 0 || written->insert(hash).second});
  }
  answer->Table(key, meaning, ListColumns(input), std::move(rows), {.is_shown = false});
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/stack_list.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "answers/views/lists.h"
#include "base/format.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

constexpr char kSmaller[] = "(smaller stacks)";

// Innermost first.
std::vector<std::string> LabelsOf(const StackTree& tree, uint32_t node, const FrameTable& frames) {
  if (node == StackTree::kRoot) return {kSmaller};
  std::vector<std::string> labels;
  const std::vector<uint32_t> path = tree.Path(node);
  for (auto frame = path.rbegin(); frame != path.rend(); ++frame) labels.push_back(frames.frame(*frame).label);
  return labels;
}

std::vector<AnswerColumn<StackRow>> StackColumns(const StackTree& tree, const ViewInput& input) {
  constexpr char kWeight[] = "what it and all that it called allocated";
  const FrameTable& frames = *input.frames;
  const uint64_t whole = input.aggregated->all.bytes;
  return {
      {"bytes", "bytes", Unit::kBytes, kWeight, [](const StackRow& row) { return row.weight.bytes; }},
      ShareColumn<StackRow>(whole, [](const StackRow& row) { return row.weight.bytes; }),
      {"count", "count", Unit::kCount, kWeight, [](const StackRow& row) { return row.weight.count; }},
      {"name", "", Unit::kText, "of the line, function, ...; of a stack its innermost frame",
       [&](const StackRow& row) { return LabelsOf(tree, row.node, frames)[0]; }},
      {"labels", "stack", Unit::kChain, "of a stack: its frames, innermost first",
       [&](const StackRow& row) {
         const std::vector<std::string> labels = LabelsOf(tree, row.node, frames);
         return Datum::List({labels.begin(), labels.end()}, JsonLayout::kOneLine);
       }},
  };
}

// A frame as one element of a collapsed line.
std::string Element(absl::string_view label) {
  std::string element = EscapeControls(label);
  std::replace(element.begin(), element.end(), ';', ':');
  return element;
}

}  // namespace

std::vector<StackRow> StackRows(const StackTree& tree, bool by_count) {
  std::vector<StackRow> rows;
  for (uint32_t i = 0; i < tree.size(); ++i) {
    if (tree.node(i).self.count > 0) rows.push_back({i, tree.node(i).self});
  }
  if (tree.merged().count > 0) rows.push_back({StackTree::kRoot, tree.merged()});
  std::sort(rows.begin(), rows.end(), [by_count](const StackRow& a, const StackRow& b) {
    const Weight &x = a.weight, &y = b.weight;
    return by_count ? std::tie(y.count, y.bytes, a.node) < std::tie(x.count, x.bytes, b.node)
                    : std::tie(y.bytes, y.count, a.node) < std::tie(x.bytes, x.count, b.node);
  });
  return rows;
}

Document StacksAnswer(const StackTree& tree, const std::vector<StackRow>& rows, size_t top, const ViewInput& input) {
  Document answer = ViewAnswer("table", input);
  answer.Field("by", "stack", "what a row is ([commands/table.md](commands/table.md))");
  const size_t shown = Shown(rows.size(), top);
  Weight rest;
  for (size_t i = shown; i < rows.size(); ++i) rest.Add(rows[i].weight);
  answer.Table("rows", "the largest first; of stacks one a stack", StackColumns(tree, input), rows,
               {.count = shown,
                .layout = JsonLayout::kOneLine,
                .is_shown = !rows.empty(),
                .counts_rest = true,
                .rest = absl::StrCat(" with ", FormatBytes(rest.bytes))});
  return answer;
}

void WriteCollapsedStacks(const StackTree& tree, const FrameTable& frames, bool by_count, const TextSink& sink) {
  struct Visit {
    uint32_t node = StackTree::kRoot;
    size_t above = 0;  // bytes of the line that belong to its callers
  };
  ChunkedText out(sink);
  std::string line;
  const auto print = [&](absl::string_view path, const Weight& weight) {
    const uint64_t figure = by_count ? weight.count : weight.bytes;
    if (figure != 0) absl::StrAppend(out.text(), path, " ", figure, "\n");
    out.MaybeFlush();
  };
  std::vector<Visit> open{Visit{}};
  while (!open.empty()) {
    const Visit step = open.back();
    open.pop_back();
    const StackTree::Node& node = tree.node(step.node);
    line.resize(step.above);
    if (step.node != StackTree::kRoot)
      absl::StrAppend(&line, line.empty() ? "" : ";", Element(frames.frame(node.frame).label));
    print(line, node.self);
    print(absl::StrCat(line, line.empty() ? "" : ";", kSmaller), node.merged);
    const auto children = tree.Children(step.node);
    for (auto child = children.rbegin(); child != children.rend(); ++child) open.push_back({*child, line.size()});
  }
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/stack_list.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/shown.h"
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

// "linear.py:134 forward <- model.py:42 Block.forward <- train.py:9 <module>", as far as a line goes.
std::string StackText(const std::vector<std::string>& labels, const TextStyle& style) {
  std::string text = labels[0];
  for (size_t i = 1; i < labels.size() && text.size() < 4 * static_cast<size_t>(style.width); ++i)
    absl::StrAppend(&text, " ", style.arrow(), " ", labels[i]);
  return text;
}

std::string StackShareText(uint64_t part, uint64_t whole) {
  return FormatPercent(whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole));
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

void AddStackTable(const StackTree& tree, const std::vector<StackRow>& rows, size_t top, const ViewInput& input,
                   Page* page) {
  if (rows.empty()) return;
  const uint64_t whole = input.aggregated->all.bytes;
  std::vector<Page::Row> table{{"bytes", "share", "count", "stack"}};
  const size_t shown = Shown(rows.size(), top);
  for (size_t i = 0; i < shown; ++i) {
    const Weight& weight = rows[i].weight;
    table.push_back({FormatBytes(weight.bytes), StackShareText(weight.bytes, whole), FormatCount(weight.count),
                     StackText(LabelsOf(tree, rows[i].node, *input.frames), page->style())});
  }
  page->Table({Align::kRight, Align::kRight, Align::kRight, Align::kLeft}, table);
  if (shown == rows.size()) return;
  Weight rest;
  for (size_t i = shown; i < rows.size(); ++i) rest.Add(rows[i].weight);
  page->Line(absl::StrCat("  and ", FormatCount(rows.size() - shown), " more with ", FormatBytes(rest.bytes),
                          ": --top 0 shows all"),
             Tone::kAside);
}

void WriteStacksJson(absl::string_view command, const StackTree& tree, const std::vector<StackRow>& rows, size_t top,
                     const ViewInput& input, const TextSink& sink) {
  ChunkedText out(sink);
  JsonWriter json(out.text());
  json.BeginObject();
  WriteJsonViewHead(command, input, &json);
  json.Field("by", "stack");
  json.Key("rows");
  json.BeginArray();
  for (size_t i = 0; i < Shown(rows.size(), top); ++i) {
    const std::vector<std::string> labels = LabelsOf(tree, rows[i].node, *input.frames);
    json.BeginObject(JsonLayout::kOneLine);
    json.Field("name", labels[0]);
    WriteJsonWeight(rows[i].weight, &json);
    json.Key("labels");
    json.BeginArray(JsonLayout::kOneLine);
    for (const std::string& label : labels) json.Value(label);
    json.EndArray();
    json.EndObject();
    out.MaybeFlush();
  }
  json.EndArray();
  json.EndObject();
  out.text()->push_back('\n');
}

void WriteCollapsedStacks(const StackTree& tree, const FrameTable& frames, bool by_count, const TextSink& sink) {
  struct Step {
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
  std::vector<Step> open{Step{}};
  while (!open.empty()) {
    const Step step = open.back();
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

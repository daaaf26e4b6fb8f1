// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/tree_view.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/utf8.h"
#include "render/cells.h"

namespace gpumem {
namespace {

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Draws one tree. Iterative: a hostile stack is thousands of frames deep.
class TreeText {
 public:
  TreeText(const StackTree& tree, const ViewInput& input, const TreeOptions& options, const TextStyle& style)
      : tree_(tree),
        input_(input),
        options_(options),
        style_(style),
        whole_(Figure(input.aggregated->all)),
        share_title_(options.by_count ? ShareTitleOfCount(whole_) : ShareTitle(whole_)) {}

  Document Lines() {
    lines_.Line(absl::StrCat(PadLeft("bytes", 11), "  ", share_title_, PadLeft("count", 11)), Tone::kAside);
    PushChildren(StackTree::kRoot, "");
    while (!open_.empty()) {
      const Step step = open_.back();
      open_.pop_back();
      step.node == kSmaller ? DrawSmaller(step) : DrawNode(step);
    }
    if (not_shown_ == 0) return std::move(lines_);
    lines_.Line(absl::StrCat("  ", FormatCountOf(not_shown_, "branch", "branches"), " below ",
                             FormatPercent(options_.percent_limit / 100), " not shown: --percent-limit 0 shows all"),
                Tone::kAside);
    return std::move(lines_);
  }

 private:
  static constexpr uint32_t kSmaller = UINT32_MAX;

  struct Step {
    uint32_t node = 0;   // or kSmaller
    std::string indent;  // of the lines below
    bool last = false;
    bool only_root = false;  // the one node at the top needs no branch
    Weight smaller;          // of kSmaller
    uint64_t smaller_nodes = 0;
  };

  uint64_t Figure(const Weight& weight) const { return options_.by_count ? weight.count : weight.bytes; }
  bool IsLarge(const Weight& weight) const { return Share(Figure(weight), whole_) * 100 >= options_.percent_limit; }

  // As steps in reverse, so that the largest is drawn first.
  void PushChildren(uint32_t parent, const std::string& indent) {
    std::vector<Step> steps;
    Step smaller;
    smaller.node = kSmaller;
    for (const uint32_t child : tree_.Children(parent)) {
      if (IsLarge(tree_.node(child).total)) {
        Step step;
        step.node = child;
        steps.push_back(step);
      } else {
        smaller.smaller.Add(tree_.node(child).total);
        ++smaller.smaller_nodes;
      }
    }
    if (options_.by_count) {
      std::stable_sort(steps.begin(), steps.end(), [&](const Step& a, const Step& b) {
        return tree_.node(a.node).total.count > tree_.node(b.node).total.count;
      });
    }
    if (const Weight& merged = tree_.node(parent).merged; merged.count > 0) {
      smaller.smaller.Add(merged);
      ++smaller.smaller_nodes;
    }
    if (smaller.smaller_nodes > 0 && IsLarge(smaller.smaller)) {
      steps.push_back(smaller);
    } else {
      not_shown_ += smaller.smaller_nodes;
    }
    for (Step& step : steps) step.indent = indent;
    if (!steps.empty()) steps.back().last = true;
    if (parent == StackTree::kRoot && steps.size() == 1) steps[0].only_root = true;
    open_.insert(open_.end(), steps.rbegin(), steps.rend());
  }

  std::string Branch(const Step& step) const {
    if (step.only_root) return step.indent;
    if (style_.utf8) return absl::StrCat(step.indent, step.last ? "\u2514 " : "\u251c ");
    return absl::StrCat(step.indent, step.last ? "`-" : "|-");
  }

  std::string Below(const Step& step) const {
    if (step.only_root) return step.indent;
    // Deeper than half the line nothing could be read any more.
    if (DisplayWidth(step.indent) > style_.width / 2) return step.indent;
    return absl::StrCat(step.indent, step.last ? "  " : style_.utf8 ? "\u2502 " : "| ");
  }

  std::string Numbers(const Weight& weight) const {
    return absl::StrCat(PadLeft(FormatBytes(weight.bytes), 11),
                        PadLeft(FormatPercent(Share(Figure(weight), whole_)), DisplayWidth(share_title_) + 2),
                        PadLeft(FormatCount(weight.count), 11), "  ");
  }

  // Down to the first node that has something of its own, or several ways to go on.
  uint32_t ChainEnd(uint32_t at) const {
    while (options_.collapse) {
      const StackTree::Node& node = tree_.node(at);
      const auto children = tree_.Children(at);
      if (children.size() != 1 || node.self.count != 0 || node.merged.count != 0) break;
      at = children[0];
    }
    return at;
  }

  void DrawNode(const Step& step) {
    const uint32_t end = ChainEnd(step.node);
    std::vector<std::string> labels;
    for (uint32_t at = end;; at = tree_.node(at).parent) {
      labels.push_back(EscapeControls(input_.frames->frame(tree_.node(at).frame).label));
      if (at == step.node) break;
    }
    std::reverse(labels.begin(), labels.end());
    const Weight& total = tree_.node(step.node).total;
    const std::string lead = absl::StrCat(Numbers(total), Branch(step));
    lines_.Line({{Tone::kPlain, lead}, {Tone::kHeading, ChainText(labels, style_.width - DisplayWidth(lead))}});
    PushChildren(end, Below(step));
  }

  // First and last of a chain say most; what lies between is shown as far as there is room.
  std::string ChainText(const std::vector<std::string>& labels, int room) const {
    const std::string arrow = style_.utf8 ? " \u203a " : " > ";
    const size_t least = labels.size() > kMaxWholeChain ? labels.size() - kMaxWholeChain : 0;
    for (size_t left_out = least; left_out + 1 < labels.size(); ++left_out) {
      std::string text = labels[0];
      if (left_out > 0) absl::StrAppend(&text, arrow, LeftOut(left_out));
      for (size_t i = 1 + left_out; i < labels.size(); ++i) absl::StrAppend(&text, arrow, labels[i]);
      if (DisplayWidth(text) <= room) return text;
    }
    if (labels.size() == 1) return labels[0];
    // Not even the two: the start of the one and the end of the other.
    const std::string between = labels.size() == 2 ? arrow : absl::StrCat(arrow, LeftOut(labels.size() - 2), arrow);
    const int half = std::max((room - DisplayWidth(between)) / 2, 8);
    const std::string first = TruncateEnd(labels[0], half, style_.ellipsis());
    const int left = std::max(room - DisplayWidth(between) - DisplayWidth(first), 8);
    return absl::StrCat(first, between, TruncateStart(labels.back(), left, style_.ellipsis()));
  }

  std::string LeftOut(size_t frames) const { return absl::StrCat(style_.ellipsis(), frames, style_.ellipsis()); }

  void DrawSmaller(const Step& step) {
    lines_.Line(absl::StrCat(Numbers(step.smaller), Branch(step), "in ",
                             FormatCountOf(step.smaller_nodes, "smaller branch", "smaller branches")),
                Tone::kAside);
  }

  static constexpr size_t kMaxWholeChain = 64;  // labels that are tried on one line

  const StackTree& tree_;
  const ViewInput& input_;
  TreeOptions options_;
  TextStyle style_;
  Document lines_;
  uint64_t whole_;
  std::string share_title_;
  std::vector<Step> open_;
  uint64_t not_shown_ = 0;
};

std::vector<AnswerColumn<uint32_t>> NodeColumns(const StackTree& tree, const ViewInput& input) {
  constexpr char kIds[] = "numbers of the node and of its caller's; the root is its own parent";
  constexpr char kNames[] =
      "of the frame; `file` as it was recorded; `module` is a Python module or the path of a shared library";
  constexpr char kThrough[] = "of all stacks through the node", kThere[] = "of stacks that end there";
  constexpr char kMerged[] = "of stacks that go on, but not as nodes";
  const auto of_frame = [&](absl::string_view key, absl::string_view meaning, auto part) {
    return AnswerColumn<uint32_t>(key, meaning, [&tree, &input, part](const uint32_t& node) {
      return node == StackTree::kRoot ? Datum::Absent() : Datum(input.frames->frame(tree.node(node).frame).*part);
    });
  };
  const auto of_node = [&](absl::string_view key, absl::string_view meaning, auto weight, auto part) {
    return AnswerColumn<uint32_t>(
        key, meaning, [&tree, weight, part](const uint32_t& node) { return tree.node(node).*weight.*part; });
  };
  using Node = StackTree::Node;
  return {{"id", kIds, [](const uint32_t& node) { return node; }},
          {"parent", kIds, [&tree](const uint32_t& node) { return tree.node(node).parent; }},
          of_frame("label", "the frame in short", &ViewFrame::label),
          of_frame("function", kNames, &ViewFrame::function),
          of_frame("file", kNames, &ViewFrame::path),
          of_frame("line", kNames, &ViewFrame::line),
          of_frame("module", kNames, &ViewFrame::module),
          of_node("bytes", kThrough, &Node::total, &Weight::bytes),
          of_node("count", kThrough, &Node::total, &Weight::count),
          of_node("self_bytes", kThere, &Node::self, &Weight::bytes),
          of_node("self_count", kThere, &Node::self, &Weight::count),
          of_node("merged_bytes", kMerged, &Node::merged, &Weight::bytes),
          of_node("merged_count", kMerged, &Node::merged, &Weight::count)};
}

// Each after its parent, siblings largest first.
std::vector<uint32_t> NodesAbove(double percent_limit, const StackTree& tree, const ViewInput& input) {
  std::vector<uint32_t> nodes, open{StackTree::kRoot};
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    nodes.push_back(node);
    const auto children = tree.Children(node);
    for (auto child = children.rbegin(); child != children.rend(); ++child) {
      if (Share(tree.node(*child).total.bytes, input.aggregated->all.bytes) * 100 >= percent_limit)
        open.push_back(*child);
    }
  }
  return nodes;
}

}  // namespace

Document TreeAnswer(const StackTree& tree, const ViewInput& input, const TreeOptions& options,
                    double least_percent_listed) {
  Document answer = ViewAnswer("tree", input);
  answer.Table("nodes",
               "each call after its caller, siblings largest first; the first is the root, which has everything and no "
               "names",
               NodeColumns(tree, input), NodesAbove(least_percent_listed, tree, input),
               {.layout = JsonLayout::kOneLine});
  if (tree.size() > 1 || tree.merged().count > 0) {
    answer.Shown(
        [&tree, &input, options](const TextStyle& style) { return TreeText(tree, input, options, style).Lines(); });
  }
  return answer;
}

}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the views print, of stacks made by hand. Whole answers of the program are in tests/golden.

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "answers/report/trace_answer.h"
#include "answers/views/lists.h"
#include "answers/views/stack_list.h"
#include "answers/views/tree_view.h"
#include "frames.h"
#include "render/draw.h"
#include "testing/key_tables.h"

namespace gpumem {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using testing::FakeFrames;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ResolvedPython;
using testing::StacksWith;
using testing::StackWith;

// Three branches, one of them a long chain, one below a percent; and a name that would steer the terminal.
struct Example {
  Example() {
    const auto main = ResolvedPython("main", "/job/train.py", 9);
    const auto step = ResolvedPython("step", "/job/train.py", 5);
    const uint64_t chain =
        source.Stack({ResolvedPython("c", "/job/m.py", 3), ResolvedPython("b", "/job/m.py", 2), step, main});
    const uint64_t evil = source.Stack({ResolvedPython("x;\x1b[31my", "/job/m.py", 7), step, main});
    const uint64_t small = source.Stack({ResolvedPython("small", "/job/m.py", 8), step, main});
    aggregated = StacksWith({StackWith(chain, 6000, 2), StackWith(evil, 3990, 1), StackWith(small, 10, 7)});
    for (AggregatedStack& stack : aggregated.stacks) stack.size = stack.weight.bytes / stack.weight.count;
    aggregated.devices = {{0, ViewMeasure::kAllocated, 2'000'000'000, 10'000}};
    analysis.origin_ns = 1'000'000'000;
    analysis.end_ns = 9'000'000'000;
    analysis.devices.resize(1);
    analysis.process.program = "train";
  }

  ViewInput input() { return {{&analysis, nullptr, {}, ""}, &aggregated, &frames, &selection}; }

  FakeFrames source;
  FrameTable frames{&source, {}, "/job"};
  AggregatedStacks aggregated;
  StackSelection selection;
  Analysis analysis;
};

std::string TreeOf(Example* example, const TreeOptions& options, int width = 100) {
  TextStyle style;
  style.utf8 = true;
  style.width = width;
  const StackTree tree(example->aggregated, &example->frames);
  const ViewInput input = example->input();
  const Document answer = TreeAnswer(tree, input, options, 0);
  Document lines;  // without the head, which ends with how much it is
  for (const Item& item : answer.items()) {
    if (item.kind == Item::Kind::kShown) lines.Shown(item.make);
  }
  return ToText(lines, style);
}

TEST(TreeText, DrawsBranchesAndCollapsesChains) {
  Example example;
  EXPECT_EQ(TreeOf(&example, {}),
            "      bytes  of 9.77 KiB      count\n"
            "   9.77 KiB        100 %         10  train.py:9 main \u203a train.py:5 step\n"
            "   5.86 KiB         60 %          2  \u251c m.py:2 b \u203a m.py:3 c\n"
            "   3.90 KiB         40 %          1  \u2514 m.py:7 x;\\x1b[31my\n"
            "  1 branch below 1.0 % not shown: --percent-limit 0 shows all\n");
}

TEST(TreeText, ShowsEachCallAndEachBranchWhereAskedTo) {
  Example example;
  TreeOptions options;
  options.collapse = false;
  options.percent_limit = 0;
  const std::string text = TreeOf(&example, options);
  EXPECT_THAT(text, HasSubstr("  train.py:9 main\n"));
  EXPECT_THAT(text, HasSubstr("\u251c m.py:2 b\n"));
  EXPECT_THAT(text, HasSubstr("\u2514 m.py:8 small\n"));
  EXPECT_THAT(text, Not(HasSubstr("smaller")));
}

TEST(TreeText, SumsUpSmallBranchesThatAreLargeTogether) {
  Example example;
  TreeOptions options;
  options.percent_limit = 50;
  EXPECT_THAT(TreeOf(&example, options), Not(HasSubstr("smaller")));
  options.percent_limit = 40;
  EXPECT_THAT(TreeOf(&example, options),
              HasSubstr("   3.91 KiB         40 %          8  \u2514 in 2 smaller branches\n"));
}

TEST(TreeText, SortsByCount) {
  Example example;
  TreeOptions options;
  options.by_count = true;
  const std::string text = TreeOf(&example, options);
  EXPECT_LT(text.find("small"), text.find("m.py:2 b"));
  EXPECT_THAT(text, HasSubstr("70 %"));
}

TEST(TreeText, LeavesOutTheMiddleOfAChainWhereThereIsNoRoom) {
  FakeFrames source;
  std::vector<ResolvedFrame> deep;
  for (uint32_t i = 3000; i > 0; --i) deep.push_back(ResolvedPython("function_" + std::to_string(i), "/job/m.py", i));
  Example example;
  const uint64_t stack = example.source.Stack(deep);
  example.aggregated = StacksWith({StackWith(stack, 100)});
  const std::string text = TreeOf(&example, {}, 90);
  EXPECT_THAT(text, HasSubstr("m.py:1 function_1 \u203a \u2026"));
  EXPECT_THAT(text, HasSubstr("\u203a m.py:3000 function_3000\n"));
}

TEST(TreeText, ShortensTheEndsOfAChainWhereTheyDoNotFit) {
  Example example;
  const uint64_t stack = example.source.Stack({ResolvedPython(std::string(50, 'z'), "/job/m.py", 2),
                                               ResolvedPython("middle", "/job/m.py", 3),
                                               ResolvedPython(std::string(50, 'a'), "/job/m.py", 1)});
  example.aggregated = StacksWith({StackWith(stack, 100)});
  const std::string text = TreeOf(&example, {}, 90);
  EXPECT_THAT(text, HasSubstr("m.py:1 aaa"));
  EXPECT_THAT(text, HasSubstr("a\u2026 \u203a \u20261\u2026 \u203a \u2026z"));
  EXPECT_THAT(text, HasSubstr("zzz\n"));
}

TEST(TreeText, ADeepTreeIsDrawn) {
  Example example;
  std::vector<AggregatedStack> stacks;
  std::vector<ResolvedFrame> frames;
  for (uint32_t i = 1; i < 400; ++i) {
    frames.insert(frames.begin(), ResolvedPython("f", "/job/m.py", i));
    stacks.push_back(StackWith(example.source.Stack(frames), 1));
  }
  example.aggregated = StacksWith(stacks);
  TreeOptions all;
  all.percent_limit = 0;
  const std::string text = TreeOf(&example, all, 80);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 400);
}

template <typename Write>
std::string Written(Write write) {
  std::string text;
  write([&](absl::string_view piece) { text += std::string(piece); });
  return text;
}

std::string Collapsed(Example* example, bool by_count) {
  const StackTree tree(example->aggregated, &example->frames);
  return Written([&](const TextSink& sink) { WriteCollapsedStacks(tree, example->frames, by_count, sink); });
}

TEST(CollapsedStacks, AreLinesThatFlamegraphsRead) {
  Example example;
  EXPECT_EQ(Collapsed(&example, false),
            "train.py:9 main;train.py:5 step;m.py:2 b;m.py:3 c 6000\n"
            "train.py:9 main;train.py:5 step;m.py:7 x:\\x1b[31my 3990\n"
            "train.py:9 main;train.py:5 step;m.py:8 small 10\n");
  EXPECT_THAT(Collapsed(&example, true), HasSubstr("m.py:8 small 7\n"));
}

TEST(CollapsedStacks, HaveWhatWasMergedToo) {
  Example example;
  const StackTree tree(example.aggregated, &example.frames, 5);
  EXPECT_EQ(Written([&](const TextSink& sink) { WriteCollapsedStacks(tree, example.frames, false, sink); }),
            "train.py:9 main;train.py:5 step;(smaller stacks) 4000\n"
            "train.py:9 main;train.py:5 step;m.py:2 b;m.py:3 c 6000\n");
}

TEST(StackTable, ListsStacksFromTheirEnd) {
  Example example;
  const StackTree tree(example.aggregated, &example.frames, 6);
  Page page(TextStyle{});
  const std::vector<StackRow> rows = StackRows(tree, true);
  const ViewInput input = example.input();
  Draw(StacksAnswer(tree, rows, 2, input), &page);
  EXPECT_THAT(page.text(),
              EndsWith("     bytes  of 9.77 KiB  count  stack\n"
                       "      10 B        0.1 %      7  (smaller stacks)\n"
                       "  5.86 KiB         60 %      2  m.py:3 c <- m.py:2 b <- train.py:5 step <- train.py:9 main\n"
                       "  1 more with 3.90 KiB: --top 0\n"));
}

TEST(ViewHead, SaysWhatFiltersAndBoundsLeftOut) {
  Example example;
  example.aggregated.shown = {4000, 2};
  example.aggregated.merged = {500, 5};
  example.aggregated.merged_entries = 5;
  example.analysis.devices.resize(2);
  const std::string text = ToText(ViewAnswer("table", example.input()), {});
  EXPECT_THAT(text, HasSubstr("Peak allocated on GPU 0: 9.77 KiB at 1.000 s"));
  EXPECT_THAT(text, HasSubstr("3.91 KiB of it (40 %), in 2 allocations, is in 3 stacks that match"));
  EXPECT_THAT(text, HasSubstr("500 B of it, in 5 of the smallest stacks, is merged"));
  EXPECT_THAT(text, HasSubstr("1 other GPU has a peak of its own"));
}

TEST(ViewHead, NamesTheOtherViews) {
  Example example;
  ViewInput input = example.input();
  input.report.asked.from_ns = 2'000'000'000;
  example.aggregated.mode = ViewMode::kLeaks;
  EXPECT_EQ(ViewTitle(input), "Not freed at the end of what was allocated after 2.000 s, on GPU 0: 9.77 KiB");
  example.aggregated.mode = ViewMode::kTotal;
  EXPECT_EQ(ViewTitle(input), "Total allocated between 2.000 s and 8.000 s on GPU 0: 9.77 KiB");
  example.aggregated.mode = ViewMode::kTemporary;
  EXPECT_EQ(ViewTitle(input), "Freed after at most 1 other between 2.000 s and 8.000 s, on GPU 0: 9.77 KiB");
}

void CollectKeys(const json& value, std::set<std::string>* keys) {
  if (value.is_array()) {
    for (const json& element : value) CollectKeys(element, keys);
  }
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    keys->insert(key);
    if (key != "by_kind" && key != "versions") CollectKeys(member, keys);
  }
}

TEST(ViewJson, TheTablesOfDocumentsAreWhatTheyDeclare) {
  Example example;
  const ViewInput input = example.input();
  const StackTree tree(example.aggregated, &example.frames);
  const std::vector<Location> rows = Locations(example.aggregated, &example.frames, LocationKind::kLine);
  const std::vector<StackRow> stacks = StackRows(tree, false);
  const SizesLists sizes{HistogramOf(example.aggregated), rows, rows};
  Document lists = TableAnswer(rows, LocationKind::kLine, 0, input);
  lists.Documents("", "", {StacksAnswer(tree, stacks, 0, input)});
  testing::ExpectKeyTables(
      {{"tree", TreeAnswer(tree, input, {}, 0)}, {"table", lists}, {"sizes", SizesAnswer(sizes, 0, input)}},
      {{"", HeadFields("table", input.report)}, {"view", ViewAnswer("table", input)}});
}

TEST(ViewJson, EveryKeyIsDocumented) {
  Example example;
  const ViewInput input = example.input();
  const StackTree tree(example.aggregated, &example.frames);
  const std::vector<Location> rows = Locations(example.aggregated, &example.frames, LocationKind::kLine);
  const SizesLists sizes{HistogramOf(example.aggregated), rows, rows};
  const std::vector<StackRow> stacks = StackRows(tree, false);
  std::set<std::string> keys;
  for (const std::string& text : {
           ToJson(TreeAnswer(tree, input, {}, 0)),
           ToJson(TableAnswer(rows, LocationKind::kLine, 0, input)),
           ToJson(SizesAnswer(sizes, 0, input)),
           ToJson(StacksAnswer(tree, stacks, 0, input)),
       }) {
    CollectKeys(json::parse(text), &keys);
  }
  std::ifstream file(GPUMEM_DOCS_FOLDER "/json.md");
  const std::string documented{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& key : keys) EXPECT_NE(documented.find("`" + key + "`"), std::string::npos) << key;
  EXPECT_EQ(keys.count("self_bytes"), 1u);
}

TEST(ViewJson, TheNodesAddUp) {
  Example example;
  const StackTree tree(example.aggregated, &example.frames);
  const ViewInput input = example.input();
  const json answer = json::parse(ToJson(TreeAnswer(tree, input, {}, 0)));
  EXPECT_EQ(answer["view"]["bytes"], 10000);
  const json& nodes = answer["nodes"];
  EXPECT_EQ(nodes[0]["bytes"], 10000);
  uint64_t self = 0;
  for (const json& node : nodes) self += node["self_bytes"].get<uint64_t>();
  EXPECT_EQ(self, 10000u);
  EXPECT_EQ(nodes[1]["label"], "train.py:9 main");
}

}  // namespace
}  // namespace gpumem

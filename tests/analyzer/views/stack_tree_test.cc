// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "views/stack_tree.h"

#include <gmock/gmock.h>

#include <random>

#include "frames.h"
#include "views/location_table.h"
#include "views/size_histogram.h"
#include "views/weight_map.h"

namespace gpumem {
namespace {

using testing::FakeFrames;
using testing::PythonFrame;
using testing::Weighs;
using testing::WeightedBy;

uint64_t StackOf(FakeFrames* source, const std::string& outermost_first) {
  std::vector<ResolvedFrame> frames;
  for (const char c : outermost_first) frames.insert(frames.begin(), PythonFrame(std::string(1, c), "/job/m.py", 1));
  return source->Stack(frames);
}

// "a 17/0 (b 15/5 (c 10/10) ...)": total/self bytes, children in their order.
std::string Text(const StackTree& tree, const FrameTable& frames, uint32_t at = StackTree::kRoot) {
  const StackTree::Node& node = tree.node(at);
  std::string text = (at == StackTree::kRoot ? "." : frames.frame(node.frame).function) + " " +
                     std::to_string(node.total.bytes) + "/" + std::to_string(node.self.bytes);
  if (node.merged.bytes > 0) text += "+" + std::to_string(node.merged.bytes);
  for (const uint32_t child : tree.Children(at)) text += " (" + Text(tree, frames, child) + ")";
  return text;
}

TEST(StackTree, MergesWhatBeginsAlike) {
  FakeFrames source;
  const uint64_t abc = StackOf(&source, "abc"), abd = StackOf(&source, "abd"), ab = StackOf(&source, "ab");
  FrameTable frames(&source, {}, "/job");
  const StackTree tree(WeightedBy({Weighs(abc, 10, 2), Weighs(ab, 5), Weighs(abd, 2)}), &frames);
  EXPECT_EQ(Text(tree, frames), ". 17/0 (a 17/0 (b 17/5 (c 10/10) (d 2/2)))");
  EXPECT_EQ(tree.node(StackTree::kRoot).total.count, 4u);
  EXPECT_EQ(tree.merged_stacks(), 0u);
}

TEST(StackTree, EndsTheSmallestStacksEarlyWhereThereIsNoRoom) {
  FakeFrames source;
  const uint64_t abc = StackOf(&source, "abc"), abde = StackOf(&source, "abde"), x = StackOf(&source, "x");
  FrameTable frames(&source, {}, "/job");
  const StackTree tree(WeightedBy({Weighs(abc, 10), Weighs(abde, 5), Weighs(x, 2)}), &frames, 5);
  EXPECT_EQ(Text(tree, frames), ". 17/0+2 (a 15/0 (b 15/0 (c 10/10) (d 5/0+5)))");
  EXPECT_EQ(tree.size(), 5u);
  EXPECT_EQ(tree.merged_stacks(), 2u);
  EXPECT_EQ(tree.merged().bytes, 7u);
}

TEST(StackTree, HasWhatWasMergedBefore) {
  FakeFrames source;
  const uint64_t a = StackOf(&source, "a");
  FrameTable frames(&source, {}, "/job");
  WeightedStacks weighted = WeightedBy({Weighs(a, 10)});
  weighted.merged = {3, 3};
  weighted.merged_entries = 3;
  weighted.all.Add(weighted.merged);
  weighted.shown = weighted.all;
  EXPECT_EQ(Text(StackTree(weighted, &frames), frames), ". 13/0+3 (a 10/10)");
  EXPECT_EQ(Locations(weighted, &frames, LocationKind::kLine)[1].name, "(smaller stacks)");
}

TEST(WeightMap, KeepsTheLargestAndTheSum) {
  WeightMap map(10);
  std::mt19937_64 random(7);
  uint64_t bytes = 0;
  for (uint64_t stack = 1; stack <= 1000; ++stack) {
    const uint64_t size = stack % 100 == 0 ? 1'000'000 + stack : random() % 1000;
    map.Add({stack, 0, 1, 1}, {size, 1}, 1);
    bytes += size;
  }
  WeightedStacks weighted;
  map.Take(&weighted);
  ASSERT_EQ(weighted.stacks.size(), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(weighted.stacks[i].stack_id, 1000 - 100 * i);
  EXPECT_EQ(weighted.all, (Weight{bytes, 1000}));
  EXPECT_EQ(weighted.merged_entries, 990u);
  Weight sum = weighted.merged;
  for (const WeightedStack& stack : weighted.stacks) sum.Add(stack.weight);
  EXPECT_EQ(sum, weighted.all);
}

TEST(WeightMap, StopsAtTheLargestNumber) {
  WeightMap map(10);
  map.Add({1, 0, 1, 1}, {UINT64_MAX - 1, 1}, 1);
  map.Add({1, 0, 1, 1}, {5, 1}, 2);
  WeightedStacks weighted;
  map.Take(&weighted);
  EXPECT_EQ(weighted.all, (Weight{UINT64_MAX, 2}));
  EXPECT_EQ(weighted.stacks[0].api, 0u);  // not the same function each time
}

TEST(Locations, CountRecursionOnce) {
  FakeFrames source;
  const uint64_t aba = StackOf(&source, "aba"), ab = StackOf(&source, "ab");
  FrameTable frames(&source, {}, "/job");
  const std::vector<Location> rows =
      Locations(WeightedBy({Weighs(aba, 10), Weighs(ab, 4)}), &frames, LocationKind::kFunction, LocationOrder::kTotal);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "a (m.py)");
  EXPECT_EQ(rows[0].total.bytes, 14u);
  EXPECT_EQ(rows[0].self.bytes, 10u);
  EXPECT_EQ(rows[0].stacks, 2u);
  EXPECT_EQ(rows[1].total.bytes, 14u);
  EXPECT_EQ(rows[1].self.bytes, 4u);
}

TEST(Locations, GroupByEachKind) {
  FakeFrames source;
  source.threads[1] = {10, "main"};
  source.threads[2] = {11, "worker"};
  const uint64_t ab = StackOf(&source, "ab"), again = StackOf(&source, "ab"), c = StackOf(&source, "c");
  FrameTable frames(&source, {}, "/job");
  WeightedStacks weighted = WeightedBy({Weighs(ab, 4, 2), Weighs(again, 3), Weighs(c, 1, 9)});
  for (WeightedStack& stack : weighted.stacks) stack.thread = stack.stack_id == c ? 2 : 1;
  const auto names = [&](LocationKind kind, LocationOrder order) {
    std::string text;
    for (const Location& row : Locations(weighted, &frames, kind, order))
      text += row.name + "=" + std::to_string(row.self.bytes) + "/" + std::to_string(row.total.bytes) + " ";
    return text;
  };
  EXPECT_EQ(names(LocationKind::kThread, LocationOrder::kSelf), "thread 10 (main)=7/7 thread 11 (worker)=1/1 ");
  EXPECT_EQ(names(LocationKind::kFile, LocationOrder::kSelf), "m.py=8/8 ");
  EXPECT_EQ(names(LocationKind::kLibrary, LocationOrder::kSelf), "m=8/8 ");
  EXPECT_EQ(names(LocationKind::kLine, LocationOrder::kCount), "m.py:1 c=1/1 m.py:1 b=7/7 m.py:1 a=0/7 ");
}

TEST(SizeHistogram, HasABucketForEachPowerOfTwo) {
  WeightedStacks weighted = WeightedBy({Weighs(1, 3000, 3), Weighs(2, 512, 1), Weighs(3, 8192, 1)});
  weighted.stacks[0].size = 1000;
  weighted.stacks[1].size = 512;
  weighted.stacks[2].size = 8192;
  const SizeHistogram histogram = HistogramOf(weighted);
  EXPECT_EQ(histogram.smallest, 512u);
  EXPECT_EQ(histogram.median, 1000u);
  EXPECT_EQ(histogram.largest, 8192u);
  ASSERT_EQ(histogram.buckets.size(), 5u);
  EXPECT_EQ(histogram.buckets[0].from, 512u);
  EXPECT_EQ(histogram.buckets[0].to, 1024u);
  EXPECT_EQ(histogram.buckets[0].weight, (Weight{3512, 4}));
  EXPECT_EQ(histogram.buckets[1].weight, Weight{});
  EXPECT_EQ(histogram.buckets[4].weight, (Weight{8192, 1}));
  ASSERT_EQ(histogram.sizes.size(), 3u);
  EXPECT_EQ(histogram.sizes[0].size, 8192u);
  WeightedStacks extremes = WeightedBy({Weighs(1, 1), Weighs(2, 1)});
  extremes.stacks[1].size = UINT64_MAX;
  EXPECT_EQ(HistogramOf(extremes).buckets.size(), 64u);
  EXPECT_TRUE(HistogramOf({}).buckets.empty());
}

}  // namespace
}  // namespace gpumem

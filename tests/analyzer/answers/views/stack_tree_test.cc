// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/views/stack_tree.h"

#include <gmock/gmock.h>

#include <random>

#include "answers/views/location_table.h"
#include "answers/views/size_histogram.h"
#include "frames.h"
#include "ledger/stacks/weight_map.h"

namespace gpumem {
namespace {

using testing::FakeFrames;
using testing::ResolvedPython;
using testing::StacksWith;
using testing::StackWith;

uint64_t StackOf(FakeFrames* source, const std::string& outermost_first) {
  std::vector<ResolvedFrame> frames;
  for (const char c : outermost_first) frames.insert(frames.begin(), ResolvedPython(std::string(1, c), "/job/m.py", 1));
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
  const StackTree tree(StacksWith({StackWith(abc, 10, 2), StackWith(ab, 5), StackWith(abd, 2)}), &frames);
  EXPECT_EQ(Text(tree, frames), ". 17/0 (a 17/0 (b 17/5 (c 10/10) (d 2/2)))");
  EXPECT_EQ(tree.node(StackTree::kRoot).total.count, 4u);
  EXPECT_EQ(tree.merged_stacks(), 0u);
}

TEST(StackTree, EndsTheSmallestStacksEarlyWhereThereIsNoRoom) {
  FakeFrames source;
  const uint64_t abc = StackOf(&source, "abc"), abde = StackOf(&source, "abde"), x = StackOf(&source, "x");
  FrameTable frames(&source, {}, "/job");
  const StackTree tree(StacksWith({StackWith(abc, 10), StackWith(abde, 5), StackWith(x, 2)}), &frames, 5);
  EXPECT_EQ(Text(tree, frames), ". 17/0+2 (a 15/0 (b 15/0 (c 10/10) (d 5/0+5)))");
  EXPECT_EQ(tree.size(), 5u);
  EXPECT_EQ(tree.merged_stacks(), 2u);
  EXPECT_EQ(tree.merged().bytes, 7u);
}

TEST(StackTree, HasWhatWasMergedBefore) {
  FakeFrames source;
  const uint64_t a = StackOf(&source, "a");
  FrameTable frames(&source, {}, "/job");
  AggregatedStacks aggregated = StacksWith({StackWith(a, 10)});
  aggregated.merged = {3, 3};
  aggregated.merged_entries = 3;
  aggregated.all.Add(aggregated.merged);
  aggregated.shown = aggregated.all;
  EXPECT_EQ(Text(StackTree(aggregated, &frames), frames), ". 13/0+3 (a 10/10)");
  EXPECT_EQ(Locations(aggregated, &frames, LocationKind::kLine)[1].name, "(smaller stacks)");
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
  AggregatedStacks aggregated;
  map.Take(&aggregated);
  ASSERT_EQ(aggregated.stacks.size(), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(aggregated.stacks[i].stack_id, 1000 - 100 * i);
  EXPECT_EQ(aggregated.all, (Weight{bytes, 1000}));
  EXPECT_EQ(aggregated.merged_entries, 990u);
  Weight sum = aggregated.merged;
  for (const AggregatedStack& stack : aggregated.stacks) sum.Add(stack.weight);
  EXPECT_EQ(sum, aggregated.all);
}

TEST(WeightMap, StopsAtTheLargestNumber) {
  WeightMap map(10);
  map.Add({1, 0, 1, 1}, {UINT64_MAX - 1, 1}, 1);
  map.Add({1, 0, 1, 1}, {5, 1}, 2);
  AggregatedStacks aggregated;
  map.Take(&aggregated);
  EXPECT_EQ(aggregated.all, (Weight{UINT64_MAX, 2}));
  EXPECT_EQ(aggregated.stacks[0].api, 0u);  // not the same function each time
}

TEST(Locations, CountRecursionOnce) {
  FakeFrames source;
  const uint64_t aba = StackOf(&source, "aba"), ab = StackOf(&source, "ab");
  FrameTable frames(&source, {}, "/job");
  const std::vector<Location> rows = Locations(StacksWith({StackWith(aba, 10), StackWith(ab, 4)}), &frames,
                                               LocationKind::kFunction, LocationOrder::kTotal);
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
  AggregatedStacks aggregated = StacksWith({StackWith(ab, 4, 2), StackWith(again, 3), StackWith(c, 1, 9)});
  for (AggregatedStack& stack : aggregated.stacks) stack.thread = stack.stack_id == c ? 2 : 1;
  const auto names = [&](LocationKind kind, LocationOrder order) {
    std::string text;
    for (const Location& row : Locations(aggregated, &frames, kind, order))
      text += row.name + "=" + std::to_string(row.self.bytes) + "/" + std::to_string(row.total.bytes) + " ";
    return text;
  };
  EXPECT_EQ(names(LocationKind::kThread, LocationOrder::kSelf), "thread 10 (main)=7/7 thread 11 (worker)=1/1 ");
  EXPECT_EQ(names(LocationKind::kFile, LocationOrder::kSelf), "m.py=8/8 ");
  EXPECT_EQ(names(LocationKind::kLibrary, LocationOrder::kSelf), "m=8/8 ");
  EXPECT_EQ(names(LocationKind::kLine, LocationOrder::kCount), "m.py:1 c=1/1 m.py:1 b=7/7 m.py:1 a=0/7 ");
}

TEST(SizeHistogram, HasABucketForEachPowerOfTwo) {
  AggregatedStacks aggregated = StacksWith({StackWith(1, 3000, 3), StackWith(2, 512, 1), StackWith(3, 8192, 1)});
  aggregated.stacks[0].size = 1000;
  aggregated.stacks[1].size = 512;
  aggregated.stacks[2].size = 8192;
  const SizeHistogram histogram = HistogramOf(aggregated);
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
  AggregatedStacks extremes = StacksWith({StackWith(1, 1), StackWith(2, 1)});
  extremes.stacks[1].size = UINT64_MAX;
  EXPECT_EQ(HistogramOf(extremes).buckets.size(), 64u);
  EXPECT_TRUE(HistogramOf({}).buckets.empty());
}

}  // namespace
}  // namespace gpumem

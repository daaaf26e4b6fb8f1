// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/life_table.h"

#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "testing/index_folder.h"
#include "testing/trace_builder.h"
#include "trace/event_batch.h"

namespace gpumem {
namespace {

AttributedUse UseOf(Category category, uint64_t stack, uint64_t bytes) {
  AttributedUse use;
  use.layer = trace::TORCH;
  use.category = category;
  use.stack_id = stack;
  use.bytes = use.tensor_bytes = bytes;
  use.count = 1;
  return use;
}

// More lives than a chunk has, of all lengths, and of two devices; held against a look at each of them.
class LifeTableTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kEvents = 400'000;
  static constexpr uint32_t kSlot = 1;

  LifeTableTest() {
    std::mt19937_64 random(7);
    auto file = *SavedFileWriter::Create(file_);
    LifeTableWriter writer(file.get(), kSlot);
    for (uint64_t born = 0; born < kEvents; born += 2) {
      const uint64_t length = 1 + (random() % 100 == 0 ? random() % kEvents : random() % 50);
      lives_.push_back(LifeOf(born, std::min(kEvents, born + length), random()));
    }
    std::sort(lives_.begin(), lives_.end(), [](const Life& a, const Life& b) { return a.end < b.end; });
    for (const Life& life : lives_) writer.Lived(life, UseOf(Category::kActivation, StackOf(life), life.size));
    for (uint64_t event = 0; event < kEvents; ++event) {
      writer.Happened(event, TimeOf(event), event % 100, 3);
      MomentTotals totals;
      totals.values = {AllocatedAt(event), ReservedAt(event), 0, ReservedAt(event)};
      if (event % 3 == 0) writer.Totals({event, TimeOf(event), kSlot, event % 2 == 0, totals});
      if (event % 1000 == 0) writer.Totals({event, TimeOf(event), 7, true, {{event, 2, 3, 4}, 5, 6}});
    }
    writer.Ended(kEvents, kEvents - 1, true, [](AttributedUse* use) { use->is_loss = use->stack_id == 3; });
    data_ = writer.data();
    EXPECT_TRUE(file->Finish("").ok());
    saved_ = SavedFile::Open(file_);
  }
  static Life LifeOf(uint64_t born, uint64_t end, uint64_t seed) {
    Life life;
    life.kind = static_cast<LifeKind>(seed % 16 == 0 ? 2 : seed % 8 == 0);
    life.slot = seed % 5 == 0 ? 7 : kSlot;
    life.born = born;
    life.end = end;
    life.time_ns = seed % 7 == 0 ? 0 : TimeOf(born);
    life.end_ns = seed % 11 == 0 ? 0 : TimeOf(end);
    life.address = seed;
    life.size = 512 * (1 + seed % 9);
    life.requested = seed % 3 == 0 ? life.size - 100 : 0;
    life.stream = seed % 13 == 0 ? UINT64_MAX - 5 : 0;
    life.thread = static_cast<uint32_t>(seed % 3);
    life.api = static_cast<uint32_t>(seed % 4);
    life.kept = seed % 17 == 0;
    life.saved = seed % 19 == 0;
    return life;
  }
  static uint64_t StackOf(const Life& life) { return life.address % 20; }
  // Any number that changes with each event.
  static uint64_t AllocatedAt(uint64_t event) { return event * 7919 % 1'000'003; }
  static uint64_t TimeOf(uint64_t event) { return 1000 + event / 4 * 10; }  // four at a time
  static uint64_t ReservedAt(uint64_t event) { return (uint64_t{1} << 30) - event / 3 * 4096; }

  const std::string trace_ = testing::TraceBuilder().CudaAlloc(0x1000, 4096).End().WriteTemporary();
  const testing::IndexFolder folder_;
  const IndexFile file_ = *SavedFileOf(trace_, "answers");
  std::vector<Life> lives_;
  LifeTableData data_;
  std::unique_ptr<SavedFile> saved_;
};

TEST_F(LifeTableTest, EveryMomentIsWhatWasAlive) {
  ASSERT_TRUE(data_.is_exact);
  EXPECT_GT(data_.lives.size(), 2u);
  const LifeTable table(saved_.get(), &data_);
  for (uint64_t event = 0; event < kEvents; event += 19'997) {
    uint64_t bytes = 0, of_loss = 0, count = 0;
    for (const Life& life : lives_) {
      if (life.born > event || life.end <= event || life.slot != kSlot || life.kind == LifeKind::kSegment) continue;
      bytes += life.size;
      of_loss += StackOf(life) == 3 ? life.size : 0;
      ++count;
    }
    Moment moment;
    moment.event_index = event;
    ASSERT_TRUE(table.Fill(&moment));
    EXPECT_EQ(moment.values.allocated, AllocatedAt(event / 3 * 3));
    EXPECT_EQ(moment.values.reserved, ReservedAt(event));
    EXPECT_EQ(moment.categories[Index(Category::kActivation)], bytes);
    EXPECT_EQ(moment.categories[Index(Category::kAllocatorOverhead)], ReservedAt(event) - moment.values.allocated);
    EXPECT_EQ(moment.counts[Index(Category::kActivation)], count);
    uint64_t shown = 0;
    for (const AttributedUse& use : moment.uses) shown += use.is_loss ? use.bytes : 0;
    EXPECT_EQ(shown, of_loss);
  }
}

TEST_F(LifeTableTest, TimesAreThoseOfTheLastEventThen) {
  const LifeTable table(saved_.get(), &data_);
  EXPECT_EQ(table.EventAt(999), std::nullopt);
  EXPECT_EQ(table.EventAt(1000), 3u);
  EXPECT_EQ(table.EventAt(1009), 3u);
  EXPECT_EQ(table.EventAt(1010), 7u);
  for (uint64_t event = 0; event < kEvents; event += 9'999) {
    EXPECT_EQ(table.TimeOf(event), TimeOf(event));
    EXPECT_EQ(table.EventAt(TimeOf(event)), event / 4 * 4 + 3);
  }
  EXPECT_EQ(table.EventAt(UINT64_MAX), kEvents - 1);
}

TEST_F(LifeTableTest, AllIsReadAsItWasWritten) {
  const LifeTable table(saved_.get(), &data_);
  EXPECT_TRUE(table.IsIntact());
  size_t place = 0;
  ASSERT_TRUE(table.ReadLives([&](const Life& life, const AttributedUse& use) {
    const Life& wanted = lives_[place++];
    ASSERT_EQ(
        std::tie(life.kind, life.born, life.time_ns, life.end, life.end_ns, life.address, life.size),
        std::tie(wanted.kind, wanted.born, wanted.time_ns, wanted.end, wanted.end_ns, wanted.address, wanted.size));
    ASSERT_EQ(
        std::tie(life.requested, life.stream, life.slot, life.thread, life.api, life.kept, life.saved),
        std::tie(wanted.requested, wanted.stream, wanted.slot, wanted.thread, wanted.api, wanted.kept, wanted.saved));
    ASSERT_EQ(use.stack_id, StackOf(wanted));
    ASSERT_EQ(std::tie(use.bytes, use.tensor_bytes, use.count), std::make_tuple(wanted.size, wanted.size, uint64_t{1}));
  }));
  EXPECT_EQ(place, lives_.size());
  uint64_t of_slot = 0, of_other = 0;
  ASSERT_TRUE(table.ReadTotals([&](const TotalsAfter& after) {
    ASSERT_EQ(after.time_ns, TimeOf(after.event));
    if (after.slot == kSlot) {
      ASSERT_EQ(after.event, 3 * of_slot++);
      ASSERT_EQ(after.is_own, after.event % 2 == 0);
      ASSERT_EQ(after.totals.values.allocated, AllocatedAt(after.event));
      return;
    }
    ASSERT_EQ(after.event, 1000 * of_other++);
    ASSERT_EQ(std::tie(after.totals.values.allocated, after.totals.context, after.totals.graphs),
              std::make_tuple(after.event, uint64_t{5}, uint64_t{6}));
  }));
  EXPECT_EQ(of_slot, (kEvents + 2) / 3);
  EXPECT_EQ(of_other, kEvents / 1000);
}

}  // namespace
}  // namespace gpumem

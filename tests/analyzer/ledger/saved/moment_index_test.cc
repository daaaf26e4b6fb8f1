// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/moment_index.h"

#include <gtest/gtest.h>

#include <random>

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

// More lives than a chunk has, of all lengths; held against a look at each of them.
class MomentIndexTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kEvents = 400'000;
  struct Life {
    uint64_t born, end, bytes, stack;
  };

  MomentIndexTest() {
    std::mt19937_64 random(7);
    auto file = *SavedFileWriter::Create(file_);
    MomentIndexWriter writer(file.get());
    for (uint64_t born = 0; born < kEvents; born += 2) {
      const uint64_t length = 1 + (random() % 100 == 0 ? random() % kEvents : random() % 50);
      lives_.push_back({born, std::min(kEvents, born + length), 512 * (1 + random() % 9), random() % 20});
    }
    std::sort(lives_.begin(), lives_.end(), [](const Life& a, const Life& b) { return a.end < b.end; });
    for (const Life& life : lives_)
      writer.Lived(life.born, life.end, UseOf(Category::kActivation, life.stack, life.bytes));
    for (uint64_t event = 0; event < kEvents; ++event) {
      writer.Happened(event, TimeOf(event));
      MomentTotals totals;
      totals.values.reserved = totals.values.total = ReservedAt(event);
      if (event % 3 == 0) writer.Totals(event, totals);
    }
    writer.Ended(true, [](AttributedUse* use) { use->is_loss = use->stack_id == 3; });
    data_ = writer.data();
    EXPECT_TRUE(file->Finish("").ok());
    saved_ = SavedFile::Open(file_);
  }
  static uint64_t TimeOf(uint64_t event) { return 1000 + event / 4 * 10; }  // four at a time
  static uint64_t ReservedAt(uint64_t event) { return (uint64_t{1} << 30) - event / 3 * 4096; }

  const std::string trace_ = testing::TraceBuilder().CudaAlloc(0x1000, 4096).End().WriteTemporary();
  const testing::IndexFolder folder_;
  const IndexFile file_ = *SavedFileOf(trace_, "answers");
  std::vector<Life> lives_;
  MomentIndexData data_;
  std::unique_ptr<SavedFile> saved_;
};

TEST_F(MomentIndexTest, EveryMomentIsWhatWasAlive) {
  ASSERT_TRUE(data_.is_exact);
  EXPECT_GT(data_.lives.size(), 2u);
  const MomentIndex index(saved_.get(), &data_);
  for (uint64_t event = 0; event < kEvents; event += 19'997) {
    uint64_t bytes = 0, of_loss = 0, count = 0;
    for (const Life& life : lives_) {
      if (life.born > event || life.end <= event) continue;
      bytes += life.bytes;
      of_loss += life.stack == 3 ? life.bytes : 0;
      ++count;
    }
    Moment moment;
    moment.event_index = event;
    ASSERT_TRUE(index.Fill(&moment));
    EXPECT_EQ(moment.values.allocated, bytes);
    EXPECT_EQ(moment.values.reserved, ReservedAt(event));
    EXPECT_EQ(moment.categories[Index(Category::kActivation)], bytes);
    EXPECT_EQ(moment.categories[Index(Category::kAllocatorOverhead)], ReservedAt(event) - bytes);
    EXPECT_EQ(moment.counts[Index(Category::kActivation)], count);
    uint64_t shown = 0;
    for (const AttributedUse& use : moment.uses) shown += use.is_loss ? use.bytes : 0;
    EXPECT_EQ(shown, of_loss);
  }
}

TEST_F(MomentIndexTest, TimesAreThoseOfTheLastEventThen) {
  const MomentIndex index(saved_.get(), &data_);
  EXPECT_EQ(index.EventAt(999), std::nullopt);
  EXPECT_EQ(index.EventAt(1000), 3u);
  EXPECT_EQ(index.EventAt(1009), 3u);
  EXPECT_EQ(index.EventAt(1010), 7u);
  for (uint64_t event = 0; event < kEvents; event += 9'999) {
    EXPECT_EQ(index.TimeOf(event), TimeOf(event));
    EXPECT_EQ(index.EventAt(TimeOf(event)), event / 4 * 4 + 3);
  }
  EXPECT_EQ(index.EventAt(UINT64_MAX), kEvents - 1);
}

}  // namespace
}  // namespace gpumem

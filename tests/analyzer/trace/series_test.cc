// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "testing/trace_builder.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TraceBuilder;

class SeriesTest : public ::testing::Test {
 protected:
  SeriesTest() {
    char pattern[] = "/tmp/gpumemshim_series_test.XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  ~SeriesTest() override { std::filesystem::remove_all(folder_); }

  static std::string NameOf(uint32_t number) {
    return number == 1 ? "run.gmtrace" : "run.part" + std::to_string(number) + ".gmtrace";
  }

  // A file with two allocations of its own. What it carries: one for each file before it.
  std::string Write(uint32_t number, bool contiguous = true, uint64_t series = 77) {
    TraceBuilder trace;
    for (uint32_t i = 1; i < number; ++i) {
      for (int packet = 0; packet < kPacketsOfAFile; ++packet) trace.SkipSequence();
    }
    trace.header().mutable_part()->set_series(series);
    trace.header().mutable_part()->set_number(number);
    trace.header().mutable_part()->set_events_before(uint64_t{2} * (number - 1));
    trace.header().mutable_part()->set_contiguous(contiguous && number > 1);
    trace.FlushBatch();
    trace::Packet live_snapshot;
    live_snapshot.mutable_live_snapshot()->set_begins(true);
    trace::EventBatch* const events = live_snapshot.mutable_live_snapshot()->mutable_events();
    events->set_count(number - 1);
    events->set_first_time_ns(5);
    if (number > 1) {
      events->add_kind(trace::ALLOC);
      events->add_layer(trace::DRIVER);
      events->add_address_delta(int64_t{1} << 30);
      events->add_size(512);
    }
    trace.Append(live_snapshot);
    trace.CudaAlloc(uint64_t{number} << 21, 512).CudaAlloc((uint64_t{number} << 21) + 4096, 512).FlushBatch();
    trace::Packet continued;
    continued.mutable_continued()->set_next_number(number + 1);
    trace.Append(continued);
    const std::string path = folder_ + "/" + NameOf(number);
    trace.Write(path);
    return path;
  }
  static constexpr int kPacketsOfAFile = 4;  // header, live snapshot, events, continued

  // `cat` of these files.
  std::string Join(std::initializer_list<uint32_t> numbers) {
    const std::string all = folder_ + "/all.gmtrace";
    std::ofstream out(all, std::ios::binary);
    for (const uint32_t number : numbers) out << std::ifstream(Write(number), std::ios::binary).rdbuf();
    return all;
  }

  std::vector<uint32_t> Numbers(const std::string& path) {
    std::vector<uint32_t> numbers;
    for (const SeriesFile& file : FindSeries(path).files) numbers.push_back(file.number);
    return numbers;
  }

  struct Seen {
    uint64_t headers = 0, events = 0, live_snapshot = 0, missing = 0;
    bool goes_on = false;
    std::string damage;
    std::vector<TraceReader::Place> places;
  };
  static Seen ReadAll(TraceReader* reader) {
    Seen seen;
    for (ItemType type = reader->Next(); type != ItemType::kEndOfStream; type = reader->Next()) {
      seen.headers += type == ItemType::kHeader ? 1 : 0;
      if (type == ItemType::kEvents) {
        seen.events += reader->batch().count();
        seen.places.push_back(reader->place());
      }
      if (type == ItemType::kLiveSnapshot) seen.live_snapshot += reader->live_snapshot().batch.count();
    }
    seen.missing = reader->missing_packets();
    seen.goes_on = reader->goes_on_elsewhere();
    seen.damage = reader->damage();
    return seen;
  }
  static Seen ReadAll(const std::string& path) {
    absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? ReadAll(&*reader) : Seen();
  }

  std::string folder_;
};

TEST_F(SeriesTest, AnyFileStandsForAll) {
  for (const uint32_t number : {10u, 1u, 2u, 3u, 9u}) Write(number);
  Write(4, true, 88);  // of another series
  for (const uint32_t number : {1u, 2u, 10u})
    EXPECT_THAT(Numbers(folder_ + "/" + NameOf(number)), ElementsAre(1, 2, 3, 9, 10));
}

TEST_F(SeriesTest, TheNameThatWasAskedForStandsForThemWhenItsFileIsGone) {
  for (const uint32_t number : {7u, 8u}) Write(number);
  EXPECT_THAT(Numbers(folder_ + "/" + NameOf(1)), ElementsAre(7, 8));
  EXPECT_EQ(ReadAll(folder_ + "/" + NameOf(1)).events, 4u);
  EXPECT_FALSE(TraceReader::Open(folder_ + "/ran.gmtrace").ok());
  std::filesystem::create_symlink("nowhere", folder_ + "/" + NameOf(1));
  EXPECT_FALSE(TraceReader::Open(folder_ + "/" + NameOf(1)).ok());
}

TEST_F(SeriesTest, ACopyIsNotRead) {
  const std::string first = Write(1), second = Write(2);
  std::filesystem::copy_file(first, folder_ + "/run.part7.gmtrace");
  EXPECT_THAT(Numbers(second), ElementsAre(1, 2));
}

TEST_F(SeriesTest, AFileByItselfIsNoSeries) {
  TraceBuilder trace;
  trace.CudaAlloc(1 << 21, 512).End();
  trace.Write(folder_ + "/run.gmtrace");
  Write(2);
  EXPECT_THAT(Numbers(folder_ + "/run.gmtrace"), ElementsAre(0));
  EXPECT_THAT(Numbers(folder_ + "/missing.gmtrace"), ElementsAre(0));
}

TEST_F(SeriesTest, ReadAsOne) {
  for (const uint32_t number : {1u, 2u, 3u}) Write(number);
  const Seen seen = ReadAll(folder_ + "/run.part2.gmtrace");
  EXPECT_EQ(seen.headers, 1u);
  EXPECT_EQ(seen.events, 6u);
  EXPECT_EQ(seen.live_snapshot, 0u) << "the events that made it were read";
  EXPECT_EQ(seen.missing, 0u);
  EXPECT_EQ(seen.damage, "");
  EXPECT_TRUE(seen.goes_on);
}

TEST_F(SeriesTest, WithoutItsStart) {
  Write(3);
  Write(4);
  const Seen seen = ReadAll(folder_ + "/run.part4.gmtrace");
  EXPECT_EQ(seen.events, 4u);
  EXPECT_EQ(seen.live_snapshot, 2u);
  EXPECT_EQ(seen.missing, 0u);
}

TEST_F(SeriesTest, WithAGap) {
  Write(1);
  Write(3);
  const Seen seen = ReadAll(folder_ + "/run.gmtrace");
  EXPECT_EQ(seen.headers, 1u);
  EXPECT_EQ(seen.events, 4u);
  EXPECT_EQ(seen.live_snapshot, 2u);
  EXPECT_EQ(seen.missing, static_cast<uint64_t>(kPacketsOfAFile));
}

TEST_F(SeriesTest, AfterALossWhatIsAliveIsTakenAnew) {
  Write(1);
  Write(2, /*contiguous=*/false);
  EXPECT_EQ(ReadAll(folder_ + "/run.gmtrace").live_snapshot, 1u);
}

TEST_F(SeriesTest, DamageEndsAFileNotTheSeries) {
  const std::string first = Write(1);
  Write(2);
  std::filesystem::resize_file(first, std::filesystem::file_size(first) - 5);
  const Seen seen = ReadAll(first);
  EXPECT_EQ(seen.events, 4u);
  EXPECT_THAT(seen.damage, HasSubstr("run.gmtrace: the last packet is cut short"));
}

TEST_F(SeriesTest, GoesBackIntoAnotherFile) {
  for (const uint32_t number : {1u, 2u, 3u}) Write(number);
  absl::StatusOr<TraceReader> reader = TraceReader::Open(folder_ + "/run.gmtrace");
  ASSERT_TRUE(reader.ok());
  const Seen seen = ReadAll(&*reader);
  ASSERT_EQ(seen.places.size(), 3u);
  reader->Seek(seen.places[1]);
  const Seen again = ReadAll(&*reader);
  EXPECT_EQ(again.events, 4u);
  EXPECT_EQ(again.headers, 0u);
  EXPECT_EQ(again.live_snapshot, 0u);
}

TEST_F(SeriesTest, PutTogetherTheyAreOneFile) {
  const std::string all = Join({1, 2, 3});
  absl::StatusOr<TraceReader> reader = TraceReader::Open(all);
  ASSERT_TRUE(reader.ok());
  const Seen seen = ReadAll(&*reader);
  EXPECT_EQ(seen.headers, 1u);
  EXPECT_EQ(seen.events, 6u);
  EXPECT_EQ(seen.live_snapshot, 0u);
  EXPECT_EQ(seen.missing, 0u);
  EXPECT_TRUE(seen.goes_on);
  EXPECT_EQ(reader->recovery().note, "") << "each goes on right behind itself";
  EXPECT_THAT(reader->parts(), ElementsAre(1, 2, 3));
}

TEST_F(SeriesTest, PutTogetherWithAGap) {
  absl::StatusOr<TraceReader> reader = TraceReader::Open(Join({1, 3}));
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(ReadAll(&*reader).live_snapshot, 2u);
  EXPECT_THAT(reader->parts(), ElementsAre(1, 3));
}

TEST_F(SeriesTest, PutTogetherBeforeAnotherProcessTheyCanBeReadAgain) {
  const std::string all = Join({1, 2});
  TraceBuilder other;
  other.CudaAlloc(1 << 21, 512).End();
  std::ofstream(all, std::ios::binary | std::ios::app) << other.Bytes();
  absl::StatusOr<TraceReader> reader = TraceReader::Open(all);
  ASSERT_TRUE(reader.ok());
  const Seen seen = ReadAll(&*reader);
  EXPECT_EQ(seen.headers, 2u);
  EXPECT_EQ(seen.events, 5u);
  EXPECT_TRUE(seen.goes_on) << "of the first process";
  reader->Seek(seen.places[0]);
  const Seen again = ReadAll(&*reader);
  EXPECT_EQ(again.headers, 1u) << "of the other process";
  EXPECT_EQ(again.events, 5u);
}

TEST_F(SeriesTest, PutTogetherInAnotherOrderEachStandsForItself) {
  absl::StatusOr<TraceReader> reader = TraceReader::Open(Join({2, 1}));
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(ReadAll(&*reader).headers, 2u);
  EXPECT_THAT(reader->parts(), ElementsAre(2));
}

TEST(OneOfEachSeries, IsTheFirstByName) {
  EXPECT_THAT(OneOfEachSeries({"a/run.part2.gmtrace", "a/run.gmtrace", "b/run.gmtrace", "a/run.part2.1.gmtrace",
                               "a/run.partial.gmtrace", "a/run.parts.gmtrace", "x.part/run.gmtrace"}),
              ElementsAre("a/run.part2.gmtrace", "b/run.gmtrace", "a/run.partial.gmtrace", "a/run.parts.gmtrace",
                          "x.part/run.gmtrace"));
}

}  // namespace
}  // namespace gpumem

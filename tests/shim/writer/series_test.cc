// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What happens where the trace reaches its greatest size.

#include "shim/writer/series.h"

#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <random>
#include <vector>

#include "writer_fixture.h"

namespace gpumemshim::writer {
namespace {

using Live = std::map<uint64_t, uint64_t>;  // address -> size

class SeriesTest : public WriterTest {
 protected:
  void StartWithLimit(uint64_t max_bytes, OnFull on_full) {
    Config config = MakeConfig();
    config.limit = {max_bytes, on_full};
    StartBoth(config);
    const ring::RawFrame frames[] = {{0x1000, 0, 0}, {0x2000, 0, 0}};
    ASSERT_TRUE(ring::RecordStack(77, frames, 2));
  }

  // Allocates and frees at random; what stays alive is in live_.
  void RecordSome(int count) {
    for (int i = 0; i < count; i++) {
      Event e{};
      e.layer = Layer::kTorch;
      e.stack = 77;
      const bool free = live_.size() > 200;
      e.kind = free ? EventKind::kFree : EventKind::kAlloc;
      e.address =
          free ? live_.lower_bound(random_() % live_.rbegin()->first)->first : 512 * (1 + random_() % 100'000'000);
      e.size = free ? live_[e.address] : random_() % 100'000'000;
      if (!free && live_.count(e.address) != 0) continue;
      if (free) {
        live_.erase(e.address);
      } else {
        live_[e.address] = e.size;
      }
      recorded_++;
      while (!ring::Record(e)) usleep(100);
    }
    ASSERT_TRUE(FlushAndWait(5000));
  }

  std::vector<std::string> Files() const {
    std::map<uint32_t, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      files[DecodeFile(entry.path()).header.part().number()] = entry.path();
    std::vector<std::string> sorted;
    for (const auto& [number, file] : files) sorted.push_back(file);
    return sorted;
  }

  static Live Replay(const Decoded& d) {
    Live live;
    for (const std::vector<Row>* rows : {&d.live_snapshot, &d.rows}) {
      for (const Row& row : *rows) {
        if (row.kind == static_cast<int>(EventKind::kAlloc)) {
          live[row.address] = row.size;
        } else {
          live.erase(row.address);
        }
      }
    }
    return live;
  }

  std::mt19937_64 random_{1};
  Live live_;
  uint64_t recorded_ = 0;
};

TEST_F(SeriesTest, EachFileCanBeReadAlone) {
  StartWithLimit(1'600'000, OnFull::kRotate);
  for (int i = 0; i < 14; i++) RecordSome(10'000);
  Summary summary = Stop(5000);
  ASSERT_TRUE(summary.complete);
  const std::vector<std::string> files = Files();
  ASSERT_GT(files.size(), 5u);
  uint64_t events = 0, bytes = 0, next_sequence = 0, series = 0;
  Live before;
  for (size_t i = 0; i < files.size(); i++) {
    const Decoded d = DecodeFile(files[i]);
    EXPECT_EQ(d.error, "") << files[i];
    const gpumem::trace::Part& part = d.header.part();
    EXPECT_EQ(part.number(), i + 1);
    EXPECT_EQ(part.events_before(), events);
    EXPECT_EQ(part.contiguous(), i > 0);
    EXPECT_EQ(d.packets[0].sequence(), next_sequence) << "numbers go on";
    if (i == 0) series = part.series();
    EXPECT_EQ(part.series(), series);
    EXPECT_EQ(d.has_end, i + 1 == files.size());
    EXPECT_EQ(d.continued, i + 1 != files.size());
    EXPECT_EQ(d.stack_of_key.count(77), 1u) << "all definitions, though the stack was recorded once";
    EXPECT_EQ(d.live_snapshot.empty(), i == 0);
    Decoded live_snapshot_only;
    live_snapshot_only.live_snapshot = d.live_snapshot;
    EXPECT_EQ(Replay(live_snapshot_only), before);
    before = Replay(d);
    events += d.rows.size();
    bytes += std::filesystem::file_size(files[i]);
    next_sequence = d.last_sequence + 1;
  }
  EXPECT_EQ(before, live_);
  EXPECT_EQ(events, recorded_);
  EXPECT_EQ(summary.events, recorded_);
  EXPECT_EQ(summary.file_bytes, bytes);
  EXPECT_EQ(files[0], path());
  EXPECT_EQ(files[1], directory_ + "/run.part2.gmtrace");
}

TEST_F(SeriesTest, TheLastPartIsKept) {
  constexpr uint64_t kMax = 800'000;
  StartWithLimit(kMax, OnFull::kLast);
  for (int i = 0; i < 60; i++) {
    RecordSome(10'000);
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) bytes += entry.file_size();
    ASSERT_LE(bytes, kMax);
  }
  Summary summary = Stop(5000);
  ASSERT_TRUE(summary.complete);
  const std::vector<std::string> files = Files();
  ASSERT_GT(files.size(), 2u);
  uint64_t bytes = 0;
  for (const std::string& file : files) bytes += std::filesystem::file_size(file);
  EXPECT_GT(bytes, kMax / 2);
  EXPECT_FALSE(std::filesystem::exists(path())) << "the first is gone";
  EXPECT_EQ(Replay(DecodeFile(files.back())), live_);
  EXPECT_EQ(DecodeFile(files[0]).header.part().events_before() > 0, true);
}

TEST_F(SeriesTest, WhatSomebodyPutInThePlaceOfAPartStays) {
  StartWithLimit(800'000, OnFull::kLast);
  do RecordSome(10'000);
  while (Files().size() < 2);
  std::filesystem::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  for (int i = 0; i < 60; i++) RecordSome(10'000);
  ASSERT_TRUE(Stop(5000).complete);
  EXPECT_TRUE(std::filesystem::is_fifo(path()));
  std::filesystem::remove(path());
}

// The limit is that of all files together: what somebody moves away makes room.
TEST_F(SeriesTest, RotationEndsAtTheLimitAndGoesOnWhereFilesAreMoved) {
  constexpr uint64_t kMax = 400'000;
  StartWithLimit(kMax, OnFull::kRotate);
  const auto bytes_there = [&] {
    uint64_t bytes = 0;
    for (const std::string& file : Files()) bytes += std::filesystem::file_size(file);
    return bytes;
  };
  for (int i = 0; i < 40; i++) {
    RecordSome(5'000);
    ASSERT_LE(bytes_there(), kMax);
  }
  const std::vector<std::string> full = Files();
  ASSERT_GT(full.size(), 3u);
  EXPECT_GT(bytes_there(), kMax / 2);
  for (size_t i = 0; i + 1 < full.size(); i++) std::filesystem::remove(full[i]);
  usleep(1'100'000);  // it looks once a second
  RecordSome(1'000);
  const Summary summary = Stop(5000);
  EXPECT_TRUE(summary.complete);
  EXPECT_GT(summary.unwritten_events, 0u);
  EXPECT_EQ(summary.events + summary.unwritten_events, recorded_);
  EXPECT_STREQ(summary.error, "GPUMEMSHIM_MAX_SIZE was reached");
  const std::vector<std::string> files = Files();
  ASSERT_EQ(files.size(), 2u);
  const Decoded d = DecodeFile(files[1]);
  EXPECT_EQ(d.error, "");
  EXPECT_FALSE(d.header.part().contiguous());
  EXPECT_EQ(Replay(d), live_) << "it begins with what is alive";
  EXPECT_TRUE(d.has_end);
}

TEST_F(SeriesTest, StopKeepsTheFirstAndCounts) {
  StartWithLimit(100'000, OnFull::kStop);
  for (int i = 0; i < 20; i++) RecordSome(5'000);
  Summary summary = Stop(5000);
  EXPECT_TRUE(summary.complete);
  EXPECT_GT(summary.events, 5'000u);
  EXPECT_EQ(summary.events + summary.unwritten_events, recorded_);
  const Decoded d = DecodeFile(path());
  EXPECT_EQ(d.error, "");
  EXPECT_EQ(d.rows.size(), summary.events);
  EXPECT_EQ(d.losses.unwritten_events(), summary.unwritten_events);
  EXPECT_EQ(d.losses.write_error(), "GPUMEMSHIM_MAX_SIZE was reached");
  EXPECT_FALSE(d.header.has_part());
  EXPECT_LE(std::filesystem::file_size(path()), 100'000u);
}

TEST_F(SeriesTest, AFileThatSomebodyDeletedIsFollowedByAnother) {
  StartWithLimit(1 << 20, OnFull::kRotate);
  RecordSome(1000);
  std::filesystem::remove(path());
  RecordSome(1000);
  usleep(1'100'000);
  RecordSome(1000);
  const Summary summary = Stop(5000);
  EXPECT_TRUE(summary.complete);
  EXPECT_EQ(summary.events + summary.unwritten_events, recorded_);
  const std::vector<std::string> files = Files();
  ASSERT_EQ(files.size(), 1u);
  const Decoded d = DecodeFile(files[0]);
  EXPECT_EQ(d.error, "");
  EXPECT_EQ(d.header.part().number(), 2u);
  EXPECT_FALSE(d.header.part().contiguous());
  EXPECT_EQ(Replay(d), live_);
  EXPECT_TRUE(d.has_end);
}

}  // namespace
}  // namespace gpumemshim::writer

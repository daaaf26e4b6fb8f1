// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A file cut at every byte, with every bit flipped, with holes, foreign bytes and packets at the wrong place: read
// without a crash, on behind the damage, and never as if nothing were wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/trace_builder.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::TraceBuilder;

struct Salvaged {
  bool opened = false;
  bool damaged = false;
  bool ended = false;
  uint64_t missing = 0, missing_events = 0, damaged_bytes = 0;
  std::vector<TraceGap> gaps;
  std::vector<std::string> rows;  // all events
  std::string content;            // all that was read
  std::string damage;
};

Salvaged ReadDamaged(const std::string& path) {
  Salvaged outcome;
  absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
  outcome.opened = reader.ok();
  if (!outcome.opened) return outcome;
  while (reader->Next() != ItemType::kEndOfStream) {
    if (reader->type() == ItemType::kHeader) absl::StrAppend(&outcome.content, reader->header().ShortDebugString());
    if (reader->type() == ItemType::kEnd) outcome.ended = true;
    if (reader->type() != ItemType::kEvents) continue;
    for (size_t i = 0; i < reader->batch().count(); ++i) {
      const EventRow row = reader->batch().Row(i);
      outcome.rows.push_back(absl::StrCat(row.time_ns, " ", row.address, " ", row.size, " ", row.stack, " ", row.kind));
      absl::StrAppend(&outcome.content, outcome.rows.back(), "\n");
    }
  }
  outcome.missing = reader->missing_packets();
  outcome.missing_events = reader->missing_events();
  outcome.damaged_bytes = reader->damaged_bytes();
  outcome.gaps = reader->gaps();
  outcome.damage = reader->damage();
  outcome.damaged = !outcome.damage.empty();
  return outcome;
}

constexpr size_t kEventsWritten = 40, kEventsOfADamagedPacket = 4;

class DamageTest : public ::testing::TestWithParam<trace::Codec> {
 protected:
  void SetUp() override {
    TraceBuilder trace(kEventsOfADamagedPacket);
    trace.Compress(GetParam());
    trace.Device(0, "GPU", 1 << 30);
    for (uint64_t i = 1; i <= kEventsWritten; ++i) {
      starts_.push_back(i % kEventsOfADamagedPacket == 1 ? trace.Bytes().size() : 0);  // Bytes ends a packet
      trace.CudaAlloc(i << 21, 512 * i, trace.PythonStack({{"f", "m.py", 7}}));
    }
    bytes_ = trace.End().Bytes();
    path_ = trace.WriteTemporary();
    whole_ = ReadDamaged(path_);
    ASSERT_TRUE(whole_.opened && whole_.ended && !whole_.damaged);
    ASSERT_EQ(whole_.rows.size(), kEventsWritten);
  }
  void TearDown() override { std::remove(path_.c_str()); }

  Salvaged ReadChanged(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return ReadDamaged(path_);
  }

  // What was read is some of the truth, in its order; and how many events of it are not there.
  size_t Lost(const Salvaged& read) {
    size_t at = 0;
    for (const std::string& row : read.rows) {
      while (at < whole_.rows.size() && whole_.rows[at] != row) ++at;
      EXPECT_LT(at++, whole_.rows.size()) << row << " is not of this trace, or not in its order";
    }
    return whole_.rows.size() - read.rows.size();
  }

  // A packet that is lost takes no other with it, but where it is the dictionary of those behind it.
  static bool StandAlone() { return GetParam() != trace::CODEC_LZ4_CHAINED; }

  // Where the packet with event `i` begins.
  size_t PacketOf(size_t i) const { return starts_[i - i % kEventsOfADamagedPacket]; }

  std::string bytes_, path_;
  std::vector<size_t> starts_;
  Salvaged whole_;
};

TEST_P(DamageTest, CutAtEveryByte) {
  for (size_t size = 0; size < bytes_.size(); ++size) {
    const Salvaged cut = ReadChanged(bytes_.substr(0, size));
    ASSERT_FALSE(cut.ended) << size;
    ASSERT_EQ(whole_.content.substr(0, cut.content.size()), cut.content) << "what is read is a beginning of the truth";
    if (cut.damaged) {
      ASSERT_THAT(cut.damage, HasSubstr(absl::StrCat("of ", size))) << "names the file's size";
    }
  }
}

TEST_P(DamageTest, EveryBitFlipped) {
  for (size_t bit = 0; bit < bytes_.size() * 8; ++bit) {
    std::string changed = bytes_;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    const Salvaged flipped = ReadChanged(changed);
    ASSERT_TRUE(flipped.opened && flipped.damaged) << "bit " << bit % 8 << " of byte " << bit / 8;
    const size_t lost = Lost(flipped);
    ASSERT_LE(lost, StandAlone() ? kEventsOfADamagedPacket : kEventsWritten)
        << "bit " << bit % 8 << " of byte " << bit / 8;
    ASSERT_EQ(flipped.missing_events, flipped.ended ? lost : 0);
  }
}

TEST_P(DamageTest, ForeignBytesBetweenPacketsLoseNothing) {
  for (const std::string& foreign : {std::string(1, '\0'), std::string(5000, '\0'), std::string("\x0a\x05\x0dGMT1", 7),
                                     std::string("\x0a"), std::string("\x0dGMT1\x0dGMT1"), std::string(70, '\xff')}) {
    for (const size_t at : {PacketOf(4), PacketOf(20), bytes_.size()}) {
      const Salvaged read = ReadChanged(bytes_.substr(0, at) + foreign + bytes_.substr(at));
      ASSERT_TRUE(read.opened && read.damaged && read.ended);
      EXPECT_EQ(read.content, whole_.content);
      EXPECT_EQ(read.missing, 0u);
      EXPECT_TRUE(read.gaps.empty());
      EXPECT_EQ(read.damaged_bytes, foreign.size());
      EXPECT_THAT(read.damage, HasSubstr(absl::StrCat("at byte ", at, " of ")));
    }
  }
}

TEST_P(DamageTest, ForeignBytesBeforeTheFirstPacketLoseNothing) {
  const Salvaged read = ReadChanged(std::string(4096, '\0') + bytes_);
  ASSERT_TRUE(read.opened && read.damaged && read.ended);
  EXPECT_EQ(read.content, whole_.content);
  EXPECT_THAT(read.damage, HasSubstr("reading went on at byte 4096"));
}

TEST_P(DamageTest, ZeroedHoles) {
  const size_t from = PacketOf(8) + 3;
  for (const size_t size : {size_t{1}, size_t{100}, PacketOf(20) - from}) {
    std::string changed = bytes_;
    changed.replace(from, size, size, '\0');
    const Salvaged read = ReadChanged(changed);
    ASSERT_TRUE(read.opened && read.damaged && read.ended);
    const size_t lost = Lost(read);
    ASSERT_EQ(read.gaps.size(), 1u);
    EXPECT_EQ(read.missing, StandAlone() ? lost / kEventsOfADamagedPacket : read.gaps[0].packets);
    EXPECT_TRUE(read.gaps[0].events_known);
    EXPECT_EQ(read.missing_events, lost);
    EXPECT_NE(read.gaps[0].from_ns, 0u);
  }
}

TEST_P(DamageTest, PacketsCutOutWhole) {
  const Salvaged read = ReadChanged(bytes_.substr(0, PacketOf(8)) + bytes_.substr(PacketOf(16)));
  ASSERT_TRUE(read.opened && read.ended);
  EXPECT_TRUE(read.damaged) << "no byte is broken, yet something is missing";
  ASSERT_EQ(read.gaps.size(), 1u);
  EXPECT_EQ(read.missing_events, Lost(read));
  if (!StandAlone()) return;
  EXPECT_EQ(read.gaps[0].packets, 2u);
  EXPECT_EQ(Lost(read), 8u);
  EXPECT_EQ(absl::StrCat(read.gaps[0].from_ns), read.rows[7].substr(0, read.rows[7].find(' ')));
  EXPECT_EQ(absl::StrCat(read.gaps[0].to_ns), read.rows[8].substr(0, read.rows[8].find(' ')));
}

TEST_P(DamageTest, APacketTwiceCountsOnce) {
  const std::string packet = bytes_.substr(PacketOf(8), PacketOf(12) - PacketOf(8));
  for (const size_t at : {PacketOf(12), PacketOf(20), bytes_.size()}) {
    const Salvaged read = ReadChanged(bytes_.substr(0, at) + packet + bytes_.substr(at));
    ASSERT_TRUE(read.opened && read.damaged && read.ended);
    EXPECT_EQ(read.content, whole_.content);
    EXPECT_EQ(read.missing, 0u);
  }
}

TEST_P(DamageTest, BlocksSwapped) {
  const size_t a = PacketOf(8), b = PacketOf(12), c = PacketOf(16);
  const Salvaged read =
      ReadChanged(bytes_.substr(0, a) + bytes_.substr(b, c - b) + bytes_.substr(a, b - a) + bytes_.substr(c));
  ASSERT_TRUE(read.opened && read.damaged && read.ended);
  EXPECT_EQ(read.missing_events, Lost(read));
  EXPECT_GE(Lost(read), kEventsOfADamagedPacket) << "what comes too late is left out";
  EXPECT_LE(Lost(read), StandAlone() ? kEventsOfADamagedPacket : kEventsWritten);
}

TEST_P(DamageTest, WithoutItsHeader) {
  const Salvaged read = ReadChanged(bytes_.substr(bytes_.find("GMT1", 20) - 4));
  ASSERT_TRUE(read.opened && read.damaged && read.ended) << read.damage;
  EXPECT_EQ(Lost(read), 0u);
  EXPECT_EQ(read.missing_events, 0u);
}

TEST_P(DamageTest, BehindAProcessWithoutHeaderTheFirstOneStaysItself) {
  TraceBuilder other(1);
  other.header().set_pid(77);
  for (uint64_t i = 1; i <= 2 * kEventsWritten; ++i) other.CudaAlloc(i << 30, 4096);
  other.FlushBatch();
  const std::string bytes = other.Bytes();
  // The first is that of a killed process, the second lacks its beginning: its numbers go on behind the first's.
  const size_t killed = PacketOf(20), beginning = bytes.size() * 2 / 3;
  const Salvaged read = ReadChanged(bytes_.substr(0, killed) + bytes.substr(beginning));
  ASSERT_TRUE(read.opened && read.damaged);
  EXPECT_EQ(read.rows, std::vector<std::string>(whole_.rows.begin(), whole_.rows.begin() + 20));
}

TEST_P(DamageTest, TwoTracesInOneFileAreNoDamage) {
  const Salvaged read = ReadChanged(bytes_ + bytes_);
  ASSERT_TRUE(read.opened && !read.damaged && read.ended) << read.damage;
  EXPECT_EQ(read.content, whole_.content + whole_.content);
}

INSTANTIATE_TEST_SUITE_P(Codecs, DamageTest,
                         ::testing::Values(trace::CODEC_NONE, trace::CODEC_LZ4_BLOCK, trace::CODEC_ZSTD,
                                           trace::CODEC_LZ4_CHAINED));

}  // namespace
}  // namespace gpumem

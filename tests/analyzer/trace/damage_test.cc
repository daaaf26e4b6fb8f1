// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// A file cut at every byte, and with every bit flipped: read without a crash, and never read as if nothing were wrong.

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

struct Outcome {
  bool opened = false;
  bool damaged = false;
  bool ended = false;
  uint64_t missing = 0;
  std::string content;  // all that was read
  std::string damage;
};

Outcome ReadAll(const std::string& path) {
  Outcome outcome;
  absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
  outcome.opened = reader.ok();
  if (!outcome.opened) return outcome;
  while (reader->Next() != ItemType::kEndOfStream) {
    if (reader->type() == ItemType::kHeader) absl::StrAppend(&outcome.content, reader->header().ShortDebugString());
    if (reader->type() == ItemType::kEnd) outcome.ended = true;
    if (reader->type() != ItemType::kEvents) continue;
    for (size_t i = 0; i < reader->batch().count(); ++i) {
      const EventRow row = reader->batch().Row(i);
      absl::StrAppend(&outcome.content, row.time_ns, " ", row.address, " ", row.size, " ", row.stack, " ", row.kind,
                      "\n");
    }
  }
  outcome.missing = reader->missing_packets();
  outcome.damage = reader->damage();
  outcome.damaged = !outcome.damage.empty();
  return outcome;
}

class DamageTest : public ::testing::TestWithParam<trace::Codec> {
 protected:
  void SetUp() override {
    TraceBuilder trace(8);
    trace.Compress(GetParam());
    trace.Device(0, "GPU", 1 << 30);
    for (uint64_t i = 1; i <= 20; ++i) trace.CudaAlloc(i << 21, 512 * i, trace.PythonStack({{"f", "m.py", 7}}));
    bytes_ = trace.End().Bytes();
    path_ = trace.WriteTemporary();
    whole_ = ReadAll(path_);
    ASSERT_TRUE(whole_.opened && whole_.ended && !whole_.damaged);
  }
  void TearDown() override { std::remove(path_.c_str()); }

  Outcome ReadChanged(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return ReadAll(path_);
  }

  std::string bytes_, path_;
  Outcome whole_;
};

TEST_P(DamageTest, CutAtEveryByte) {
  for (size_t size = 0; size < bytes_.size(); ++size) {
    const Outcome cut = ReadChanged(bytes_.substr(0, size));
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
    const Outcome flipped = ReadChanged(changed);
    ASSERT_TRUE(!flipped.opened || flipped.damaged) << "bit " << bit % 8 << " of byte " << bit / 8;
    ASSERT_EQ(whole_.content.substr(0, flipped.content.size()), flipped.content);
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, DamageTest,
                         ::testing::Values(trace::CODEC_NONE, trace::CODEC_LZ4_BLOCK, trace::CODEC_ZSTD));

}  // namespace
}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/pickle_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "import/pickle_reader.h"

namespace gpumem {
namespace {

using ::testing::EndsWith;

// The opcodes are those of Python's pickletools; what Python reads of them is in tests/e2e/export_test.py.
TEST(PickleWriterTest, NumbersKeepTheirSignAndAllTheirBits) {
  const auto bytes = [](uint64_t value) {
    std::string out;
    PickleWriter(&out).Number(value);
    return out;
  };
  EXPECT_EQ(bytes(255), "K\xff");
  EXPECT_EQ(bytes(256), std::string("J\x00\x01\x00\x00", 5));
  EXPECT_EQ(bytes(0x80000000u), std::string("\x8a\x05\x00\x00\x00\x80\x00", 7));  // no sign: a zero behind it
  EXPECT_EQ(bytes(0x7fff00000000u), std::string("\x8a\x06\x00\x00\x00\x00\xff\x7f", 8));
  EXPECT_EQ(bytes(UINT64_MAX), std::string("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", 11));
  std::string out;
  PickleWriter(&out).Signed(-1);
  EXPECT_EQ(out, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\xff");
}

TEST(PickleWriterTest, ATextIsWrittenOnce) {
  std::string out;
  PickleWriter pickle(&out);
  pickle.Text("addr");
  pickle.Text("addr");
  EXPECT_EQ(out, std::string("X\x04\x00\x00\x00"
                             "addr"
                             "q\x00"
                             "h\x00",
                             13));
}

TEST(PickleWriterTest, LongListsComeInGroups) {
  std::string out;
  PickleWriter pickle(&out);
  pickle.BeginList();
  for (int i = 0; i < 2500; ++i) {
    pickle.Item();
    pickle.Number(1);
  }
  pickle.EndList();
  EXPECT_EQ(std::count(out.begin(), out.end(), '('), 3);
  EXPECT_EQ(std::count(out.begin(), out.end(), 'e'), 3);
  EXPECT_THAT(out, EndsWith("e"));
}

// What was read is written so that it reads the same.
TEST(PickledTreeTest, ValuesComeBack) {
  std::string written;
  PickleWriter pickle(&written);
  pickle.Begin();
  pickle.BeginDict();
  pickle.Field("number", uint64_t{1} << 62);
  pickle.Text("all");
  pickle.BeginTuple();
  pickle.Signed(-7);
  pickle.Float(2.5);
  pickle.None();
  pickle.Bool(true);
  pickle.Number(UINT64_MAX);
  pickle.EndTuple();
  pickle.EndDict();
  pickle.End();
  ByteSource source = ByteSource::Of(written);
  const absl::StatusOr<PickleTree> tree = ReadPickle(&source, {});
  ASSERT_TRUE(tree.ok()) << tree.status();
  std::string again;
  PickleWriter other(&again);
  other.Begin();
  PickledTree values(&*tree, &other, [] { return true; });
  values.Write(tree->root());
  other.End();
  ByteSource second = ByteSource::Of(again);
  const absl::StatusOr<PickleTree> same = ReadPickle(&second, {});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->Int(same->root(), "number"), int64_t{1} << 62);
  const absl::Span<const PickleValue> all = same->Items(*same->Find(same->root(), "all"));
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(same->Int(all[0]), -7);
  EXPECT_EQ(same->Number(all[1]), 2.5);
  EXPECT_EQ(all[2].type(), PickleValue::Type::kNone);
  EXPECT_EQ(all[3].type(), PickleValue::Type::kBool);
  EXPECT_EQ(all[4].type(), PickleValue::Type::kHugeInt);
}

// A list that contains itself ends: Python would write a reference, which nothing here needs.
TEST(PickledTreeTest, CyclesEnd) {
  ByteSource source = ByteSource::Of(absl::string_view("\x80\x02]q\0h\0a.", 9));
  const absl::StatusOr<PickleTree> tree = ReadPickle(&source, {});
  ASSERT_TRUE(tree.ok()) << tree.status();
  std::string again;
  PickleWriter pickle(&again);
  PickledTree(&*tree, &pickle, [] { return true; }).Write(tree->root());
  EXPECT_LT(again.size(), 16u);
}

}  // namespace
}  // namespace gpumem

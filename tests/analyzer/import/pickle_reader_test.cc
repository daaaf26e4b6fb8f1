// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "pickle_builder.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using Type = PickleValue::Type;

absl::StatusOr<PickleTree> Read(const std::string& bytes, const PickleLimits& limits = {}) {
  ByteSource source = ByteSource::Of(bytes);
  return ReadPickle(&source, limits);
}

std::string Wrong(const std::string& bytes) {
  const absl::StatusOr<PickleTree> tree = Read(bytes);
  EXPECT_TRUE(absl::IsDataLoss(tree.status())) << tree.status();
  return std::string(tree.status().message());
}

// As Python 3 writes them: pickle.dumps(value, protocol).
TEST(PickleReaderTest, ReadsProtocolFour) {
  // {'a': [1, -2, 2**40, 2**63], 'b': (True, None, 1.5)}
  const auto tree =
      Read(std::string("\x80\x04\x95\x31\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
                       "a\x94]\x94(K\x01J\xfe\xff\xff\xff\x8a\x06"
                       "\x00\x00\x00\x00\x00\x01\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"
                       "e\x8c\x01"
                       "b\x94\x88NG?\xf8"
                       "\x00\x00\x00\x00\x00\x00\x87\x94u.",
                       70));
  ASSERT_TRUE(tree.ok()) << tree.status();
  const PickleValue* const a = tree->Find(tree->root(), "a");
  ASSERT_NE(a, nullptr);
  ASSERT_EQ(tree->Items(*a).size(), 4u);
  EXPECT_EQ(tree->Int(tree->Items(*a)[0]), 1);
  EXPECT_EQ(tree->Int(tree->Items(*a)[1]), -2);
  EXPECT_EQ(tree->Int(tree->Items(*a)[2]), int64_t{1} << 40);
  EXPECT_EQ(static_cast<uint64_t>(*tree->Int(tree->Items(*a)[3])), uint64_t{1} << 63);
  const PickleValue* const b = tree->Find(tree->root(), "b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type(), Type::kTuple);
  EXPECT_TRUE(tree->IsTrue(tree->Items(*b)[0]));
  EXPECT_EQ(tree->Items(*b)[1].type(), Type::kNone);
  EXPECT_EQ(tree->Number(tree->Items(*b)[2]), 1.5);
}

TEST(PickleReaderTest, ReadsProtocolZero) {
  // {'a': [1, True, 'x\n', 2**40, 1.5]}
  const auto tree = Read("(dp0\nVa\np1\n(lp2\nI1\naI01\naVx\\u000a\np3\naL1099511627776L\naF1.5\nas.");
  ASSERT_TRUE(tree.ok()) << tree.status();
  const PickleValue* const a = tree->Find(tree->root(), "a");
  ASSERT_NE(a, nullptr);
  const auto items = tree->Items(*a);
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[1].type(), Type::kBool);
  EXPECT_EQ(tree->Text(items[2]), "x\n");
  EXPECT_EQ(tree->Int(items[3]), int64_t{1} << 40);
  EXPECT_EQ(tree->Number(items[4]), 1.5);
}

TEST(PickleReaderTest, SharedValuesAreOne) {
  const auto tree = Read(
      "]q\x01(]q\x02h\x02h\x01"
      "e.");
  ASSERT_TRUE(tree.ok()) << tree.status();
  const auto items = tree->Items(tree->root());
  ASSERT_EQ(items.size(), 3u);
  EXPECT_EQ(items[0].id(), items[1].id());
  EXPECT_EQ(items[2].id(), tree->root().id());  // a cycle is only a reference
}

TEST(PickleReaderTest, RefusesWhatWouldRun) {
  EXPECT_THAT(Wrong("cos\nsystem\n(S'touch /tmp/x'\ntR."), HasSubstr("byte 0: GLOBAL: would import os.system"));
  EXPECT_THAT(Wrong("\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R."),
              HasSubstr("STACK_GLOBAL: would import posix.system"));
  EXPECT_THAT(Wrong("(S'id'\nios\nsystem\n."), HasSubstr("INST: would import os.system"));
  EXPECT_THAT(Wrong("]]R."), HasSubstr("byte 2: REDUCE"));
  EXPECT_THAT(Wrong("]}b."), HasSubstr("byte 2: BUILD"));
  EXPECT_THAT(Wrong("Pid\n."), HasSubstr("PERSID"));
  EXPECT_THAT(Wrong("\x82\x01."), HasSubstr("EXT1"));
  EXPECT_THAT(Wrong("cos\nsystem\n."), HasSubstr("Nothing of the file was run"));
}

TEST(PickleReaderTest, SaysWhereAFileIsCut) {
  const std::string whole = pickled::Snapshot(
      {pickled::Segment(0x1000000, 2 << 20, "small", {pickled::Block(0x1000000, 2 << 20, 0, "inactive")})},
      {pickled::Entry("alloc", 0x1000000, 1000, 5, {pickled::Frame("a.py", "f", 1)})});
  ASSERT_TRUE(Read(whole).ok());
  for (size_t size = 1; size < whole.size(); ++size) {
    const absl::StatusOr<PickleTree> tree = Read(whole.substr(0, size));
    ASSERT_FALSE(tree.ok()) << size;
    EXPECT_THAT(std::string(tree.status().message()), HasSubstr("cut short")) << size;
  }
}

TEST(PickleReaderTest, NamesWhatIsWrong) {
  EXPECT_THAT(Wrong("h\x05."), HasSubstr("byte 0: BINGET: value 5 was never kept"));
  EXPECT_THAT(Wrong("]K\x01K\x02s."), HasSubstr("SETITEM: adds to what is not a dict"));
  EXPECT_THAT(Wrong("}(K\x01u."), HasSubstr("SETITEMS: a key without a value"));
  EXPECT_THAT(Wrong("}K\x01"
                    "a."),
              HasSubstr("APPEND: adds to what is not a list"));
  EXPECT_THAT(Wrong("e."), HasSubstr("no mark before it"));
  EXPECT_THAT(Wrong("a."), HasSubstr("fewer values"));
  EXPECT_THAT(Wrong("."), HasSubstr("STOP: no value"));
  EXPECT_THAT(Wrong("]\xff."), HasSubstr("byte 1: 0xff: no opcode"));
  EXPECT_THAT(Wrong("\x80\x09."), HasSubstr("a protocol above 5"));
  EXPECT_THAT(Wrong(std::string("\x8b\xff\xff\xff\x7f", 5)), HasSubstr("an integer of 2147483647 bytes"));
  EXPECT_THAT(Wrong(std::string("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f", 9)),
              HasSubstr("a text of 9223372036854775807 bytes"));
}

TEST(PickleReaderTest, NestingCostsNoStack) {
  std::string deep(2000000, ']');
  deep.append(1999999, 'a');
  EXPECT_TRUE(Read(deep + ".").ok());
}

TEST(PickleReaderTest, MemoryIsBounded) {
  PickleLimits limits;
  limits.always_bytes = 1 << 20;
  limits.bytes_per_byte = 0;
  EXPECT_FALSE(Read(std::string(2000000, ']') + ".", limits).ok());
  std::string doubling = "](";
  doubling.append(3000000, 'N');
  EXPECT_FALSE(Read(doubling + "e.", limits).ok());
}

TEST(PickleReaderTest, WholeMemoryIsBoundedWhateverTheSize) {
  PickleLimits limits;
  limits.most_bytes = 1 << 20;
  limits.too_much = absl::DataLossError("set more");
  EXPECT_EQ(std::string(Read(std::string(2000000, ']') + ".", limits).status().message()), "set more");
}

// Equal stacks share their memory until one is added to.
TEST(PickleReaderTest, EqualListsStayApart) {
  const auto tree = Read(
      "(]q\x01(}q\x02h\x02"
      "e]q\x03(h\x02h\x02"
      "eh\x02"
      "ah\x02K\x05K\x06sl.");
  ASSERT_TRUE(tree.ok()) << tree.status();
  const auto items = tree->Items(tree->root());
  ASSERT_EQ(items.size(), 3u);  // two lists, and the dict
  EXPECT_NE(items[0].id(), items[1].id());
  EXPECT_EQ(tree->Items(items[0]).size(), 2u);
  EXPECT_EQ(tree->Items(items[1]).size(), 3u);
  EXPECT_EQ(tree->Keys(tree->Items(items[0])[0]).size(), 1u);  // the dict, in both
}

TEST(PickleReaderTest, IsToldFromOtherFiles) {
  EXPECT_TRUE(BeginsLikePickle("\x80\x04\x95"));
  EXPECT_TRUE(BeginsLikePickle("(dp0\n"));
  EXPECT_FALSE(BeginsLikePickle("\x0a\x05\x0dGMT1"));
  EXPECT_FALSE(BeginsLikePickle("Thread,Time"));
  EXPECT_FALSE(BeginsLikePickle(""));
}

}  // namespace
}  // namespace gpumem

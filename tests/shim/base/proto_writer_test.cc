// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Everything that the writer emits is read back by libprotobuf.

#include "shim/base/proto_writer.h"

#include <gpumem/trace.pb.h>
#include <gtest/gtest.h>

#include <string>

namespace gpumemshim {
namespace {

namespace pb = gpumem::trace;

template <typename Message>
Message Parse(const Buffer& buffer) {
  Message message;
  EXPECT_TRUE(message.ParseFromArray(buffer.data(), static_cast<int>(buffer.size())));
  return message;
}

TEST(ProtoWriterTest, VarintsOfEveryLength) {
  for (int bits = 0; bits <= 64; bits++) {
    uint64_t value = bits == 0 ? 0 : bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
    Buffer buffer;
    ProtoWriter w(&buffer);
    w.Varint(4, value);      // Module.load_bias
    w.Varint(5, value + 1);  // Module.start
    ASSERT_TRUE(w.ok());
    auto module = Parse<pb::Module>(buffer);
    EXPECT_EQ(module.load_bias(), value);
    EXPECT_EQ(module.start(), value + 1);
  }
}

TEST(ProtoWriterTest, SignedAndFixed) {
  for (int32_t value : {0, 1, -1, 2, -2, INT32_MAX, INT32_MIN}) {
    Buffer buffer;
    ProtoWriter w(&buffer);
    w.SInt(1, value);  // DeviceCounters.device
    EXPECT_EQ(Parse<pb::DeviceCounters>(buffer).device(), value);
  }
  Buffer buffer;
  ProtoWriter w(&buffer);
  w.Fixed32(1, 0x31544D47);
  w.Fixed64(15, 0x0123456789abcdef);
  auto packet = Parse<pb::Packet>(buffer);
  EXPECT_EQ(packet.sync(), 0x31544D47u);
  EXPECT_EQ(packet.checksum(), 0x0123456789abcdefu);
}

// Lengths around each size at which the length field itself, or the way it is filled in, changes.
TEST(ProtoWriterTest, NestedMessagesOfEverySize) {
  for (size_t size : {0, 1, 120, 125, 126, 127, 128, 129, 4080, 4090, 4095, 4096, 4097, 16383, 16384, 3'000'000}) {
    std::string text(size, 'x');
    Buffer buffer;
    ProtoWriter w(&buffer);
    size_t outer = w.Open(2);  // Definitions.strings
    w.Varint(1, 5);
    w.String(2, text.c_str());
    w.Close(outer);
    size_t second = w.Open(2);
    w.Varint(1, 6);
    w.Close(second);
    ASSERT_TRUE(w.ok());
    auto definitions = Parse<pb::Definitions>(buffer);
    ASSERT_EQ(definitions.strings_size(), 2);
    EXPECT_EQ(definitions.strings(0).id(), 5u);
    EXPECT_EQ(definitions.strings(0).value(), text);
    EXPECT_EQ(definitions.strings(1).id(), 6u);
  }
}

TEST(ProtoWriterTest, PackedField) {
  Buffer buffer;
  ProtoWriter w(&buffer);
  size_t mark = w.Open(11);  // EventBatch.size
  for (uint64_t i = 0; i < 5000; i++) {
    ASSERT_TRUE(w.Room(ProtoWriter::kMaxVarint));
    w.SetEnd(ProtoWriter::PutVarint(w.End(), i * i * i));
  }
  w.Close(mark);
  auto batch = Parse<pb::EventBatch>(buffer);
  ASSERT_EQ(batch.size_size(), 5000);
  for (uint64_t i = 0; i < 5000; i++) EXPECT_EQ(batch.size(static_cast<int>(i)), i * i * i);
}

// A host's file name need not be UTF-8, but a string field that is not makes parsers refuse the message.
TEST(ProtoWriterTest, StringsBecomeUtf8) {
  const struct {
    std::string in, out;
  } cases[] = {
      {"plain", "plain"},
      {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
      {"\xe6\xbc\xa2\xf0\x9f\x98\x80", "\xe6\xbc\xa2\xf0\x9f\x98\x80"},
      {"a\xff"
       "b\xc3",
       "a?b?"},
      {"\xc0\xaf\xe0\x80\x80", "?????"},  // overlong
      {"\xed\xa0\x80", "???"},            // surrogate
      {"\xf4\x90\x80\x80", "????"},       // past U+10FFFF
      {"\xe6\xbc", "??"},                 // cut short
      {"\xe6\xbc"
       "a",
       "??a"},
  };
  for (const auto& c : cases) {
    Buffer buffer;
    ProtoWriter w(&buffer);
    w.String(2, c.in.data(), c.in.size());
    pb::InternedString message;
    ASSERT_TRUE(message.ParseFromArray(buffer.data(), static_cast<int>(buffer.size()))) << c.out;
    EXPECT_EQ(message.value(), c.out);
  }
}

TEST(ProtoWriterTest, FullBufferIsAnErrorAndNothingElse) {
  Buffer buffer(4096);
  ProtoWriter w(&buffer);
  size_t mark = w.Open(2);
  std::string text(1000, 'x');
  for (int i = 0; i < 100; i++) w.String(2, text.c_str());
  EXPECT_FALSE(w.ok());
  w.Close(mark);
  w.Varint(1, 1);
  EXPECT_FALSE(w.ok());
  EXPECT_LE(buffer.size(), 4096u);
}

}  // namespace
}  // namespace gpumemshim

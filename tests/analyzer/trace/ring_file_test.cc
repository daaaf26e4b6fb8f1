// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/ring/ring_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <functional>

#include "testing/ring_builder.h"

namespace gpumem {
namespace {

using format::RingHeader;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RingBuilder;

absl::StatusOr<RingFile> Open(const RingBuilder& ring) {
  const std::string path = ring.WriteTemporary();
  absl::StatusOr<RingFile> file = RingFile::Open(path);
  unlink(path.c_str());
  return file;
}

RingContents Read(const RingBuilder& ring, uint64_t last_sequence = 0) {
  const absl::StatusOr<RingFile> file = Open(ring);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? file->Read(last_sequence) : RingContents();
}

std::vector<uint64_t> Addresses(const RingContents& contents, uint32_t serial) {
  std::vector<uint64_t> addresses;
  const auto found = contents.threads.find(serial);
  if (found == contents.threads.end()) return addresses;
  for (const format::Event& event : found->second.events) addresses.push_back(event.address);
  return addresses;
}

TEST(RingFile, ReadsWhatAThreadLeft) {
  RingBuilder ring;
  ring.Chunk(3, 1).Code(9, "train.py", "step").PythonStack(5, {9}).Stack(6, {0x1000, 0x2000}).Alloc(1, 512, 5).Free(1);
  const RingContents contents = Read(ring);
  EXPECT_THAT(Addresses(contents, 3), ElementsAre(1, 1));
  EXPECT_EQ(contents.threads.at(3).tid, 103u);
  EXPECT_EQ(contents.threads.at(3).name, "worker");
  EXPECT_EQ(contents.codes.at(9).filename, "train.py");
  EXPECT_EQ(contents.codes.at(9).name, "step");
  EXPECT_EQ(contents.codes.at(9).first_line, 7u);
  EXPECT_EQ(contents.stacks.at(6).size(), 2u);
  EXPECT_THAT(contents.api_names, ElementsAre("", "cudaMalloc", "cudaFree"));
  EXPECT_EQ(contents.broken_chunks, 0u);
  EXPECT_FALSE(contents.was_read);
}

TEST(RingFile, PutsAThreadsChunksInTheirOrder) {
  RingBuilder ring;
  ring.Chunk(1, 2).Alloc(3, 1);
  ring.Chunk(1, 1, format::kChunkClosed).Alloc(1, 1).Alloc(2, 1);
  EXPECT_THAT(Addresses(Read(ring), 1), ElementsAre(1, 2, 3));
}

// docs/ring.md, Recovery: the newest position whose packet is whole.
TEST(RingFile, LeavesOutWhatTheTraceHas) {
  RingBuilder ring;
  ring.Chunk(1, 1).Stack(5, {1}).Alloc(1, 1, 5).Mark(4).Alloc(2, 1, 5).Mark(6).Alloc(3, 1, 5);
  EXPECT_THAT(Addresses(Read(ring, 0), 1), ElementsAre(1, 2, 3));
  EXPECT_THAT(Addresses(Read(ring, 4), 1), ElementsAre(2, 3));
  EXPECT_THAT(Addresses(Read(ring, 5), 1), ElementsAre(2, 3)) << "packet 6 was not whole";
  EXPECT_THAT(Addresses(Read(ring, 6), 1), ElementsAre(3));
  EXPECT_THAT(Addresses(Read(ring, 100), 1), ElementsAre(3));
  EXPECT_EQ(Read(ring, 6).stacks.count(5), 1u) << "a definition holds although the trace has it";
  EXPECT_TRUE(Read(ring, 6).was_read);
}

TEST(RingFile, AFreeChunkHoldsNothing) {
  RingBuilder ring;
  ring.Chunk(1, 1, format::kChunkFree).Alloc(1, 1);
  EXPECT_THAT(Read(ring).threads, IsEmpty());
}

TEST(RingFile, AHalfWrittenRecordDoesNotExist) {
  RingBuilder ring;
  ring.Chunk(1, 1).Alloc(1, 1).Alloc(2, 1);
  ring.chunk(0).committed -= static_cast<uint32_t>(sizeof(format::EventRecord));
  EXPECT_THAT(Addresses(Read(ring), 1), ElementsAre(1));
}

TEST(RingFile, AnEventMayEndBeforeItsLastFields) {
  format::Event event{};
  event.time_ns = 5;
  event.address = 7;
  event.kind = format::EventKind::kSaved;
  event.stack = 99;
  const std::string whole(reinterpret_cast<const char*>(&event), sizeof event);
  RingBuilder ring;
  ring.Chunk(1, 1);
  for (const size_t bytes : {format::kLeastEventBytes, 56u, 96u})
    ring.Raw(format::kRecordEvent, static_cast<uint32_t>(8 + bytes), whole.substr(0, bytes));
  const RingContents contents = Read(ring);
  ASSERT_EQ(contents.threads.at(1).events.size(), 3u);
  EXPECT_EQ(contents.threads.at(1).events[0].address, 7u);
  EXPECT_EQ(contents.threads.at(1).events[0].stack, 0u);
  EXPECT_EQ(contents.threads.at(1).events[1].stack, 99u);
  EXPECT_EQ(contents.broken_chunks, 0u);
  for (const size_t bytes : {format::kLeastEventBytes - 8, 104u}) {
    RingBuilder broken;
    broken.Chunk(1, 1).Raw(format::kRecordEvent, static_cast<uint32_t>(8 + bytes), std::string(bytes, '\1'));
    EXPECT_EQ(Read(broken).broken_chunks, 1u);
  }
}

TEST(RingFile, WhatIsNoRingIsTurnedDown) {
  EXPECT_TRUE(absl::IsNotFound(RingFile::Open("/no/such.ring").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(RingFile::Open("/tmp").status()));
  RingBuilder ring;
  ring.bytes().resize(20);
  EXPECT_THAT(Open(ring).status().message(), HasSubstr("too short"));
}

struct BadHeader {
  const char* name;
  std::function<void(RingHeader*)> bend;
};

// Offsets out of range, counts that overflow, another version: refused before anything is read by them.
TEST(RingFile, AHeaderThatDoesNotFitIsTurnedDown) {
  const BadHeader kBad[] = {
      {"no magic", [](RingHeader* h) { h->magic = 0; }},
      {"a newer layout", [](RingHeader* h) { h->layout_version = 99; }},
      {"larger than the file", [](RingHeader* h) { h->size_bytes += 4096; }},
      {"no size", [](RingHeader* h) { h->size_bytes = 0; }},
      {"a size that wraps", [](RingHeader* h) { h->size_bytes = UINT64_MAX; }},
      {"other chunks", [](RingHeader* h) { h->chunk_bytes = 1 << 20; }},
      {"chunks of nothing", [](RingHeader* h) { h->chunk_bytes = 0; }},
      {"too many chunks", [](RingHeader* h) { h->chunk_count = RingBuilder::kChunks + 1; }},
      {"countless chunks", [](RingHeader* h) { h->chunk_count = UINT32_MAX; }},
      {"descriptors behind the end", [](RingHeader* h) { h->descriptors_offset = h->size_bytes + 8; }},
      {"descriptors that wrap", [](RingHeader* h) { h->descriptors_offset = UINT64_MAX - 8; }},
      {"descriptors across the end", [](RingHeader* h) { h->descriptors_offset = h->size_bytes - 8; }},
      {"chunks behind the end", [](RingHeader* h) { h->chunks_offset = h->size_bytes; }},
      {"chunks that wrap", [](RingHeader* h) { h->chunks_offset = UINT64_MAX - 4096; }},
      {"a path longer than its room", [](RingHeader* h) { h->trace_path_bytes = 4000; }},
      {"names behind the chunks", [](RingHeader* h) { h->api_names_offset = h->chunks_offset + 1; }},
  };
  for (const BadHeader& bad : kBad) {
    RingBuilder ring;
    ring.Chunk(1, 1).Alloc(1, 1);
    bad.bend(&ring.header());
    EXPECT_TRUE(absl::IsInvalidArgument(Open(ring).status())) << bad.name;
  }
}

// Version 2 had nothing behind its losses; whatever is there means nothing.
TEST(RingFile, TheVersionBeforeIsRead) {
  RingBuilder ring;
  ring.Chunk(1, 1).Alloc(1, 1);
  ring.BelongTo("/no/such.gmtrace", 7);
  ring.header().layout_version = 2;
  const absl::StatusOr<RingFile> opened = Open(ring);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->Read(0).threads.at(1).events.size(), 1u);
  EXPECT_EQ(opened->header().id, 0u);
  EXPECT_EQ(opened->header().trace_path_bytes, 0u);
}

TEST(RingFile, ACountOfNamesThatIsTooHighEndsWithTheNames) {
  RingBuilder ring;
  ring.header().api_count = UINT32_MAX;
  const RingContents contents = Read(ring);
  ASSERT_GE(contents.api_names.size(), 3u);
  EXPECT_EQ(contents.api_names[1], "cudaMalloc");
  EXPECT_LE(contents.api_names.size(), 4096u) << "no more than there are bytes";
}

// Each second chunk is good: it must come through whatever the first one says.
void ExpectBroken(const std::function<void(RingBuilder*)>& bend, const char* name) {
  RingBuilder ring;
  ring.Chunk(1, 1).Alloc(1, 1);
  bend(&ring);
  ring.Chunk(2, 1).Alloc(7, 1);
  const RingContents contents = Read(ring, 10);
  EXPECT_EQ(contents.broken_chunks, 1u) << name;
  EXPECT_THAT(Addresses(contents, 2), ElementsAre(7)) << name;
}

TEST(RingFile, ABrokenChunkEndsWhereItBreaks) {
  ExpectBroken([](RingBuilder* r) { r->chunk(0).committed = format::kChunkBytes + 8; }, "committed too far");
  ExpectBroken([](RingBuilder* r) { r->chunk(0).committed = UINT32_MAX; }, "committed without end");
  ExpectBroken([](RingBuilder* r) { r->chunk(0).committed += 4; }, "half a header");
  ExpectBroken([](RingBuilder* r) { r->chunk(0).read[0] = {3, UINT32_MAX, 0}; }, "read too far");
  ExpectBroken([](RingBuilder* r) { r->chunk(0).owner_serial = 0; }, "of nobody");
  ExpectBroken([](RingBuilder* r) { r->Raw(1, 0, "12345678"); }, "a record of no size, which would go on for ever");
  ExpectBroken([](RingBuilder* r) { r->Raw(1, 4, "12345678"); }, "a record smaller than its header");
  ExpectBroken([](RingBuilder* r) { r->Raw(1, 13, "12345678"); }, "an odd size");
  ExpectBroken([](RingBuilder* r) { r->Raw(1, 4096, "12345678"); }, "a record past the end");
  ExpectBroken([](RingBuilder* r) { r->Raw(1, 0xfffffff8, "12345678"); }, "a size that wraps");
  ExpectBroken([](RingBuilder* r) { r->Raw(1, 16, "12345678"); }, "an event of another size");
  ExpectBroken([](RingBuilder* r) { r->Raw(2, 16, "12345678"); }, "a stack without a count");
  ExpectBroken([](RingBuilder* r) { r->Raw(3, 16, "12345678"); }, "a code object without its fields");
}

// A size that is a pattern of ones in 8 bytes of key and 4 of count.
TEST(RingFile, CountsInsideRecordsAreHeldAgainstThem) {
  const std::string many_frames("\1\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0", 16);
  ExpectBroken([&](RingBuilder* r) { r->Raw(2, 24, many_frames); }, "countless frames");
  const std::string large_part("\1\0\0\0\0\0\0\0\xff\xff\0\0\0\0\0\0\xff\xff\0\0\0\0\0\0", 24);
  ExpectBroken([&](RingBuilder* r) { r->Raw(3, 32, large_part); }, "a part larger than its record");
  const std::string huge("\1\0\0\0\0\0\0\0\xff\xff\xff\x7f\0\0\0\0\0\0\0\0\0\0\0\0", 24);
  ExpectBroken([&](RingBuilder* r) { r->Raw(3, 32, huge); }, "a code object of 2 GiB");
}

TEST(RingFile, ACodeObjectWhoseTextsAreLongerThanItIsLeftOut) {
  RingBuilder ring;
  ring.Chunk(1, 1).Code(9, "train.py", "step");
  const size_t blob = 2 * 4096 + sizeof(format::CodeRecord);
  ring.bytes()[blob + offsetof(format::CodeBlob, filename_bytes) + 3] = '\x7f';
  const RingContents contents = Read(ring);
  EXPECT_THAT(contents.codes, IsEmpty());
  EXPECT_EQ(contents.broken_chunks, 0u);
}

TEST(RingFile, UnknownRecordsArePassedOver) {
  RingBuilder ring;
  ring.Chunk(1, 1).Raw(77, 16, "12345678").Alloc(2, 1);
  EXPECT_THAT(Addresses(Read(ring), 1), ElementsAre(2));
}

}  // namespace
}  // namespace gpumem

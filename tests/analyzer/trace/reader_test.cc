// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using ::testing::HasSubstr;
using testing::TraceBuilder;

class File {
 public:
  explicit File(const std::string& bytes) : path_(TraceBuilder().WriteTemporary()) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

uint64_t CountEvents(TraceReader* reader) {
  uint64_t events = 0;
  while (reader->Next() != ItemType::kEndOfStream) {
    if (reader->type() == ItemType::kEvents) events += reader->batch().count();
  }
  return events;
}

TEST(TraceReaderTest, ReadsEveryCodec) {
  for (const trace::Codec codec :
       {trace::CODEC_NONE, trace::CODEC_LZ4_BLOCK, trace::CODEC_ZSTD, trace::CODEC_LZ4_CHAINED}) {
    TraceBuilder trace(16);
    trace.Compress(codec);
    for (uint64_t i = 1; i <= 100; ++i) trace.CudaAlloc(i << 21, i * 512);
    trace.End();
    const File file(trace.Bytes());
    absl::StatusOr<TraceReader> reader = TraceReader::Open(file.path());
    ASSERT_TRUE(reader.ok()) << reader.status();
    ASSERT_EQ(reader->Next(), ItemType::kHeader);
    EXPECT_EQ(reader->header().pid(), 4242u);
    EXPECT_EQ(CountEvents(&*reader), 100u);
    EXPECT_EQ(reader->damage(), "");
    EXPECT_EQ(reader->missing_packets(), 0u);
    EXPECT_EQ(reader->end().events(), 100u);
  }
}

TEST(TraceReaderTest, GoesBackToAPlace) {
  for (const trace::Codec codec : {trace::CODEC_ZSTD, trace::CODEC_LZ4_CHAINED}) {
    TraceBuilder trace(10);
    trace.Compress(codec);
    for (uint64_t i = 1; i <= 40; ++i)
      trace.CudaAlloc(i << 21, 512, trace.PythonStack({{"f", "m.py", static_cast<uint32_t>(i)}}));
    const File file(trace.Bytes());
    absl::StatusOr<TraceReader> reader = TraceReader::Open(file.path());
    ASSERT_TRUE(reader.ok());
    std::vector<TraceReader::Place> places;
    while (reader->Next() != ItemType::kEndOfStream) {
      if (reader->type() == ItemType::kEvents) places.push_back(reader->place());
    }
    ASSERT_EQ(reader->damage(), "");
    ASSERT_EQ(places.size(), 4u);
    reader->Seek(places[2]);
    ASSERT_EQ(reader->Next(), ItemType::kEvents);
    EXPECT_EQ(reader->batch().address(0), 21u << 21);
    EXPECT_EQ(CountEvents(&*reader), 10u);
  }
}

// A batch may hold more events than are allowed in a small packet, such as the last one that was read before.
TEST(TraceReaderTest, GoesBackToALargeBatch) {
  constexpr uint64_t kEvents = 20000;
  TraceBuilder trace(kEvents);
  trace.Compress(trace::CODEC_ZSTD);
  for (uint64_t i = 1; i <= kEvents; ++i) trace.CudaAlloc(i << 21, 1 + i * 7919 % 100003);
  trace.End();
  const File file(trace.Bytes());
  absl::StatusOr<TraceReader> reader = TraceReader::Open(file.path());
  ASSERT_TRUE(reader.ok());
  TraceReader::Place place;
  while (reader->Next() != ItemType::kEndOfStream) {
    if (reader->type() == ItemType::kEvents) place = reader->place();
  }
  reader->Seek(place);
  ASSERT_EQ(reader->Next(), ItemType::kEvents);
  EXPECT_EQ(reader->batch().count(), kEvents);
  EXPECT_EQ(reader->damage(), "");
}

TEST(TraceReaderTest, ReadsConcatenatedSections) {
  TraceBuilder first, second;
  first.CudaAlloc(1 << 21, 512, first.PythonStack({{"f", "a.py", 1}})).End();
  second.header().set_pid(5);
  second.CudaAlloc(1 << 21, 512).CudaFree(1 << 21).End();
  const File file(first.Bytes() + second.Bytes());
  absl::StatusOr<TraceReader> reader = TraceReader::Open(file.path());
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(CountEvents(&*reader), 3u);
  EXPECT_EQ(reader->section(), 1u);
  EXPECT_EQ(reader->header().pid(), 5u);
  EXPECT_EQ(reader->stacks().stack_count(), 0u) << "ids do not cross a header";
  EXPECT_EQ(reader->missing_packets(), 0u);
}

TEST(TraceReaderTest, CountsMissingPackets) {
  TraceBuilder trace(1);
  trace.CudaAlloc(1 << 21, 512).SkipSequence().SkipSequence();
  trace.CudaFree(1 << 21).End();
  const File file(trace.Bytes());
  absl::StatusOr<TraceReader> reader = TraceReader::Open(file.path());
  ASSERT_TRUE(reader.ok());
  CountEvents(&*reader);
  EXPECT_EQ(reader->missing_packets(), 2u);
}

TEST(TraceReaderTest, TellsWhatAFileIsNot) {
  EXPECT_EQ(TraceReader::Open("/nonexistent/x.gmtrace").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(TraceReader::Open("/tmp").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TraceReader::Open("/dev/zero").status().code(), absl::StatusCode::kInvalidArgument);
  const File empty("");
  EXPECT_THAT(std::string(TraceReader::Open(empty.path()).status().message()), HasSubstr("is empty"));
  for (const std::string& content :
       {std::string("#!/bin/sh\n"), std::string(1000, '\0'), std::string("\n"), std::string("\n\x05hello")}) {
    const File foreign(content);
    const absl::Status status = TraceReader::Open(foreign.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << content;
  }
}

TEST(TraceReaderTest, RefusesANewerFormat) {
  TraceBuilder trace;
  trace.header().set_format_version(3);
  trace.End();
  const File file(trace.Bytes());
  EXPECT_EQ(TraceReader::Open(file.path()).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(TraceReaderTest, RefusesNestedAndOversizedCompression) {
  for (const bool nested : {true, false}) {
    TraceBuilder trace;
    trace.CudaAlloc(1 << 21, 512).FlushBatch();
    trace::Packet packet;
    trace::Compressed* const compressed = packet.mutable_compressed();
    if (nested) {
      trace::Trace inner;
      inner.add_packet()->mutable_compressed()->set_payload("x");
      compressed->set_payload(inner.SerializeAsString());
      compressed->set_uncompressed_size(static_cast<uint32_t>(compressed->payload().size()));
    } else {
      compressed->set_codec(trace::CODEC_ZSTD);
      compressed->set_uncompressed_size(UINT32_MAX);
    }
    trace.Append(packet);
    const File file(trace.Bytes());
    absl::StatusOr<TraceReader> reader = TraceReader::Open(file.path());
    ASSERT_TRUE(reader.ok());
    CountEvents(&*reader);
    EXPECT_THAT(reader->damage(), HasSubstr("compressed packet"));
  }
}

}  // namespace
}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/write/trace_writer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

EventRow RandomRow(std::mt19937_64* random, uint64_t time_ns) {
  const auto number = [random](int bits) { return (*random)() >> (64 - bits); };
  EventRow row;
  row.time_ns = time_ns;
  row.kind = static_cast<trace::EventKind>(1 + number(5));
  row.layer = static_cast<trace::Layer>(1 + number(2) % 3);
  row.memory = static_cast<trace::Memory>(number(3));
  row.device = static_cast<int>(number(3)) - 1;
  row.address = number(60);
  row.size = number(50);
  row.requested_size = number(1) == 0 ? 0 : number(50);
  row.stream = number(48);
  row.handle = (*random)();
  row.thread = static_cast<uint32_t>(number(8));
  row.stack = number(20);
  row.tag = static_cast<uint32_t>(number(8));
  row.result = static_cast<int>(number(10)) - 512;
  row.duration_ns = static_cast<uint32_t>(number(30));
  row.api = static_cast<uint32_t>(number(8));
  row.text = static_cast<uint32_t>(number(8));
  return row;
}

void ExpectSame(const EventRow& a, const EventRow& b) {
  EXPECT_EQ(a.time_ns, b.time_ns);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.layer, b.layer);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.address, b.address);
  EXPECT_EQ(a.size, b.size);
  EXPECT_EQ(a.requested_size, b.requested_size);
  EXPECT_EQ(a.stream, b.stream);
  EXPECT_EQ(a.handle, b.handle);
  EXPECT_EQ(a.thread, b.thread);
  EXPECT_EQ(a.stack, b.stack);
  EXPECT_EQ(a.tag, b.tag);
  EXPECT_EQ(a.result, b.result);
  EXPECT_EQ(a.duration_ns, b.duration_ns);
  EXPECT_EQ(a.api, b.api);
  EXPECT_EQ(a.text, b.text);
}

TEST(BatchEncoderTest, DecodesToTheSameRows) {
  std::mt19937_64 random(7);
  for (const size_t count : {1, 2, 3, 1000}) {
    BatchEncoder encoder;
    uint64_t time = random() >> 8;
    for (size_t i = 0; i < count; ++i) encoder.Add(RandomRow(&random, time += random() >> 40));
    EventBatch batch;
    ASSERT_TRUE(batch.Decode(encoder.Serialize()).ok());
    ASSERT_EQ(batch.count(), count);
    for (size_t i = 0; i < count; ++i) ExpectSame(batch.Row(i), encoder.rows()[i]);
  }
}

TEST(BatchEncoderTest, EqualColumnsTakeOneValue) {
  BatchEncoder encoder;
  EventRow row;
  row.kind = trace::FREE;
  row.address = 4096;
  row.size = 512;
  for (int i = 0; i < 1000; ++i) encoder.Add(row);
  const std::string bytes = encoder.Serialize();
  EXPECT_LT(bytes.size(), 1100u);  // the addresses' differences alone
  EventBatch batch;
  ASSERT_TRUE(batch.Decode(bytes).ok());
  EXPECT_EQ(batch.address(999), 4096u);
  EXPECT_EQ(batch.size(999), 512u);
}

// What is written is read back: sections, definitions before use, what was alive before, the end.
TEST(TraceWriterTest, WritesAWholeTrace) {
  std::string bytes;
  TraceWriter writer([&bytes](absl::string_view part) {
    bytes.append(part.data(), part.size());
    return absl::OkStatus();
  });
  trace::Header header;
  header.set_program("made");
  ASSERT_TRUE(writer.Begin(header).ok());
  EventRow row;
  row.kind = trace::ALLOC;
  row.layer = trace::RUNTIME;
  row.address = 1 << 20;
  row.size = 1 << 20;
  ASSERT_TRUE(writer.AddLiveSnapshot({row}, {0}).ok());
  row.layer = trace::TORCH;
  DefinitionBuilder& definitions = writer.definitions();
  const uint64_t outer = definitions.Stack(0, definitions.PythonFrame("a.py", "main", 3));
  for (uint32_t i = 0; i < 2 * BatchEncoder::kMaxEvents; ++i) {
    row.time_ns = i;
    row.stack = definitions.Stack(outer, definitions.NativeFrame("a.cc", absl::StrCat("f", i % 100), i % 7));
    ASSERT_TRUE(writer.Add(row).ok());
  }
  ASSERT_TRUE(writer.End().ok());
  const int file = memfd_create("trace", MFD_CLOEXEC);
  ASSERT_EQ(write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  auto reader = TraceReader::Open(absl::StrCat("/proc/self/fd/", file));
  ASSERT_TRUE(reader.ok()) << reader.status();
  uint64_t events = 0, alive = 0;
  bool ended = false;
  while (reader->Next() != ItemType::kEndOfStream) {
    if (reader->type() == ItemType::kEvents) events += reader->batch().count();
    if (reader->type() == ItemType::kLiveSnapshot) alive += reader->live_snapshot().batch.count();
    ended |= reader->type() == ItemType::kEnd;
  }
  EXPECT_EQ(reader->damage(), "");
  EXPECT_EQ(reader->header().program(), "made");
  EXPECT_EQ(events, 2 * BatchEncoder::kMaxEvents);
  EXPECT_EQ(alive, 1u);
  EXPECT_TRUE(ended);
  EXPECT_EQ(reader->end().events(), events);
  EXPECT_EQ(reader->stacks().Frames(row.stack).size(), 2u);
  close(file);
}

TEST(TraceWriterTest, TheFirstErrorStays) {
  int writes = 0;
  TraceWriter writer([&writes](absl::string_view) {
    return ++writes < 2 ? absl::OkStatus() : absl::ResourceExhaustedError("no space");
  });
  ASSERT_TRUE(writer.Begin({}).ok());
  ASSERT_TRUE(writer.Add({}).ok());  // kept
  EXPECT_TRUE(absl::IsResourceExhausted(writer.End()));
  EXPECT_TRUE(absl::IsResourceExhausted(writer.End()));
  EXPECT_EQ(writes, 2);
}

// Readers refuse more than so many events for each byte; what resembles itself that much is written in small batches.
TEST(TraceWriterTest, EqualEventsCanBeReadToo) {
  std::string bytes;
  TraceWriter writer([&bytes](absl::string_view part) {
    bytes.append(part.data(), part.size());
    return absl::OkStatus();
  });
  ASSERT_TRUE(writer.Begin({}).ok());
  EventRow row;
  row.kind = trace::ALLOC;
  row.layer = trace::RUNTIME;
  row.address = row.size = 1 << 20;
  constexpr size_t kRows = BatchEncoder::kMaxEvents + 5000;
  ASSERT_TRUE(writer.AddLiveSnapshot(std::vector<EventRow>(kRows, row), {3, kRows - 1}).ok());
  for (size_t i = 0; i < kRows; ++i) ASSERT_TRUE(writer.Add(row).ok());
  ASSERT_TRUE(writer.End().ok());
  const int file = memfd_create("trace", MFD_CLOEXEC);
  ASSERT_EQ(write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  auto reader = TraceReader::Open(absl::StrCat("/proc/self/fd/", file));
  ASSERT_TRUE(reader.ok()) << reader.status();
  size_t events = 0, alive = 0, segments = 0;
  while (reader->Next() != ItemType::kEndOfStream) {
    if (reader->type() == ItemType::kEvents) events += reader->batch().count();
    if (reader->type() != ItemType::kLiveSnapshot) continue;
    alive += reader->live_snapshot().batch.count();
    segments += reader->live_snapshot().torch_segments.size();
  }
  EXPECT_EQ(reader->damage(), "");
  EXPECT_EQ(events, kRows);
  EXPECT_EQ(alive, kRows);
  EXPECT_EQ(segments, 2u);
  close(file);
}

}  // namespace
}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/ring/ring_recovery.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "testing/ring_builder.h"
#include "testing/trace_builder.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RingBuilder;
using testing::TraceBuilder;

constexpr uint32_t kGonePid = 0x7ffffff0;
constexpr uint64_t kGoneTicks = 1234;

std::string Hostname() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// A trace of a process that is gone, without an End, whose ring is at `ring_path`.
void BelongTo(const std::string& ring_path, TraceBuilder* trace, uint32_t pid = kGonePid) {
  trace->header().set_pid(pid);
  trace->header().set_process_start_ticks(kGoneTicks);
  trace->header().set_hostname(Hostname());
  trace->header().mutable_ring()->set_path(ring_path);
}

struct Seen {
  std::vector<uint64_t> addresses;
  std::vector<uint32_t> pids;
  uint64_t recovered = 0;
  std::string damage;
};

Seen ReadRecovered(const std::string& path) {
  Seen seen;
  absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  while (reader.ok() && reader->Next() != ItemType::kEndOfStream) {
    if (reader->type() == ItemType::kHeader) seen.pids.push_back(reader->header().pid());
    if (reader->type() == ItemType::kLosses) seen.recovered += reader->losses().recovered_events();
    for (size_t i = 0; reader->type() == ItemType::kEvents && i < reader->batch().count(); ++i)
      seen.addresses.push_back(reader->batch().address(i));
  }
  if (reader.ok()) seen.damage = reader->damage();
  return seen;
}

class RingRecovery : public ::testing::Test {
 protected:
  ~RingRecovery() override {
    for (const std::string& path : files_) unlink(path.c_str());
  }
  std::string Keep(const std::string& path) { return files_.emplace_back(path); }
  std::vector<std::string> files_;
};

TEST_F(RingRecovery, GoesOnBehindTheLastPacket) {
  RingBuilder ring;
  ring.Chunk(2, 1).Stack(5, {0x10}).Alloc(11, 1, 5);
  ring.Chunk(1, 1).Free(12).Alloc(13, 1, 5);
  TraceBuilder trace;
  BelongTo(Keep(ring.WriteTemporary()), &trace);
  trace.CudaAlloc(1, 1).FlushBatch();
  const std::string path = Keep(trace.WriteTemporary());
  const Recovery recovery = RecoverFromRing(path);
  EXPECT_TRUE(recovery.read_ring) << recovery.note;
  EXPECT_EQ(recovery.process, ProcessState::kEnded);
  EXPECT_EQ(recovery.events, 3u);
  const Seen seen = ReadRecovered(path);
  EXPECT_THAT(seen.addresses, ElementsAre(1, 11, 12, 13)) << "by time, across threads";
  EXPECT_EQ(seen.recovered, 3u);
}

TEST_F(RingRecovery, BackwardStacksAndReadyDefinitions) {
  trace::NnModule module;
  module.set_id(3);
  module.set_name("head");
  RingBuilder ring;
  ring.Chunk(1, 1).Text(0, module.SerializeAsString(), trace::Definitions::kNnModulesFieldNumber);
  ring.Text(0, "\xff", trace::Definitions::kTensorsFieldNumber).Text(0, "\x08\x01", 4);  // broken; not one of these
  ring.Text(format::NodeTextKey(9), "MmBackward0").Stack(5, {0x10, 0x20});
  ring.BackwardStack(6, 0x30, 5, 9).BackwardStack(7, 0x40, 7, 9).Alloc(11, 1, 6).Alloc(12, 1, 7);
  TraceBuilder trace;
  BelongTo(Keep(ring.WriteTemporary()), &trace);
  trace.FlushBatch();
  const Recovery recovery = RecoverFromRing(Keep(trace.WriteTemporary()));
  StackTable stacks;
  trace::Definitions all;
  for (const RecoveredPacket& packet : recovery.packets) {
    if (packet.type != PacketType::kDefinitions) continue;
    ASSERT_TRUE(stacks.Add(packet.body).ok());
    all.MergeFromString(packet.body);
  }
  ASSERT_EQ(all.nn_modules_size(), 1);
  EXPECT_EQ(all.nn_modules(0).name(), "head");
  EXPECT_EQ(all.tensors_size(), 0);
  std::vector<std::vector<uint64_t>> found;
  trace::EventBatch batch;
  for (const RecoveredPacket& packet : recovery.packets) {
    if (packet.type != PacketType::kEvents) continue;
    ASSERT_TRUE(batch.ParseFromString(packet.body));
  }
  for (const uint64_t stack : batch.stack()) {
    std::vector<uint64_t>& pcs = found.emplace_back();
    for (const uint32_t id : stacks.Frames(stack)) pcs.push_back(stacks.frame(id)->forward ? 0 : stacks.frame(id)->pc);
  }
  EXPECT_THAT(found, ElementsAre(ElementsAre(0x30, 0, 0x10, 0x20), ElementsAre(0x40, 0))) << "a circle ends";
  EXPECT_EQ(stacks.string(stacks.frame(stacks.Frames(batch.stack(0))[1])->node), "MmBackward0");
}

TEST_F(RingRecovery, AtEqualTimesFreesGoFirst) {
  RingBuilder ring;
  format::Event event{};
  event.time_ns = 5'000;
  event.kind = format::EventKind::kAlloc;
  event.address = 1;
  ring.Chunk(1, 1).Event(event);
  event.kind = format::EventKind::kFree;
  event.address = 2;
  ring.Chunk(2, 1).Event(event);
  TraceBuilder trace;
  BelongTo(Keep(ring.WriteTemporary()), &trace);
  trace.FlushBatch();
  EXPECT_THAT(ReadRecovered(Keep(trace.WriteTemporary())).addresses, ElementsAre(2, 1));
}

TEST_F(RingRecovery, CountsLossesThatOnlyTheRingKnows) {
  RingBuilder ring;
  ring.header().dropped_allocs = 7;
  ring.header().dropped_frees = 3;
  TraceBuilder trace;
  BelongTo(Keep(ring.WriteTemporary()), &trace);
  trace.CudaAlloc(1, 1).FlushBatch();
  absl::StatusOr<TraceReader> reader = TraceReader::Open(Keep(trace.WriteTemporary()));
  ASSERT_TRUE(reader.ok());
  while (reader->Next() != ItemType::kEndOfStream) {
  }
  EXPECT_EQ(reader->losses().dropped_allocs(), 7u);
  EXPECT_EQ(reader->losses().dropped_frees(), 3u);
}

TEST_F(RingRecovery, AnotherProcesssRingIsNotRead) {
  RingBuilder ring(kGonePid, kGoneTicks + 1);
  ring.Chunk(1, 1).Alloc(11, 1);
  TraceBuilder trace;
  BelongTo(Keep(ring.WriteTemporary()), &trace);
  trace.CudaAlloc(1, 1).FlushBatch();
  const Recovery recovery = RecoverFromRing(Keep(trace.WriteTemporary()));
  EXPECT_FALSE(recovery.read_ring);
  EXPECT_THAT(recovery.note, HasSubstr("another process"));
}

TEST_F(RingRecovery, ADamagedRingIsANoteAndNoError) {
  RingBuilder ring;
  ring.header().chunk_count = 1000;
  TraceBuilder trace;
  BelongTo(Keep(ring.WriteTemporary()), &trace);
  trace.CudaAlloc(1, 1).FlushBatch();
  const std::string path = Keep(trace.WriteTemporary());
  EXPECT_THAT(RecoverFromRing(path).note, HasSubstr("damaged"));
  EXPECT_THAT(ReadRecovered(path).addresses, ElementsAre(1));
}

TEST_F(RingRecovery, ACompleteTraceNeedsNone) {
  RingBuilder ring;
  ring.Chunk(1, 1).Alloc(11, 1);
  TraceBuilder trace;
  BelongTo(Keep(ring.WriteTemporary()), &trace);
  trace.CudaAlloc(1, 1).End();
  const Recovery recovery = RecoverFromRing(Keep(trace.WriteTemporary()));
  EXPECT_TRUE(recovery.complete);
  EXPECT_THAT(recovery.packets, IsEmpty());
}

// `cat a b` of two that were killed.
TEST_F(RingRecovery, EachOfSeveralProcessesGetsItsOwn) {
  RingBuilder first_ring(kGonePid), second_ring(kGonePid + 1);
  first_ring.Chunk(1, 1).Alloc(11, 1);
  second_ring.Chunk(1, 1).Alloc(22, 1);
  TraceBuilder first, second;
  BelongTo(Keep(first_ring.WriteTemporary()), &first, kGonePid);
  BelongTo(Keep(second_ring.WriteTemporary()), &second, kGonePid + 1);
  first.CudaAlloc(1, 1).FlushBatch();
  second.CudaAlloc(2, 1).FlushBatch();
  const std::string path = Keep(first.WriteTemporary());
  std::ofstream(path, std::ios::binary | std::ios::app) << second.Bytes();
  const Seen seen = ReadRecovered(path);
  EXPECT_THAT(seen.addresses, ElementsAre(1, 11, 2, 22));
  EXPECT_THAT(seen.pids, ElementsAre(kGonePid, kGonePid + 1));
  EXPECT_EQ(seen.recovered, 2u);
  RingsOfTrace rings(path);
  const Recovery of_first = rings.Recover(0), of_second = rings.Recover(of_first.whole_bytes);
  EXPECT_FALSE(of_first.is_last);
  EXPECT_EQ(of_first.whole_bytes, first.Bytes().size());
  EXPECT_TRUE(of_second.is_last);
  EXPECT_EQ(of_second.events, 1u);
}

// Going back into the first one's file and ring and on again gives the same once more.
TEST_F(RingRecovery, TheFirstOfSeveralCanBeReadAgain) {
  RingBuilder ring;
  ring.Chunk(1, 1).Alloc(11, 1);
  TraceBuilder first, second;
  BelongTo(Keep(ring.WriteTemporary()), &first);
  first.CudaAlloc(1, 1).FlushBatch();
  second.CudaAlloc(2, 1).End();
  const std::string path = Keep(first.WriteTemporary());
  std::ofstream(path, std::ios::binary | std::ios::app) << second.Bytes();
  absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
  ASSERT_TRUE(reader.ok());
  while (reader->Next() != ItemType::kEvents) {
  }
  const TraceReader::Place in_file = reader->place();
  ASSERT_NE(reader->Next(), ItemType::kEndOfStream);
  while (reader->Next() != ItemType::kHeader) {
  }
  reader->Seek(in_file);
  std::vector<uint64_t> addresses;
  while (reader->Next() != ItemType::kHeader) {
    if (reader->type() == ItemType::kEvents) addresses.push_back(reader->batch().address(0));
  }
  EXPECT_THAT(addresses, ElementsAre(1, 11));
}

// From every batch of every process: to the end of its own ring, and all is as before.
TEST_F(RingRecovery, IsSeenByALookAhead) {
  std::ofstream both;
  const std::string path = Keep(::testing::TempDir() + "/both_ahead.gmtrace");
  both.open(path, std::ios::binary);
  for (uint64_t process = 0; process < 2; ++process) {
    const uint32_t pid = kGonePid + static_cast<uint32_t>(process);
    RingBuilder ring(pid, kGoneTicks);
    ring.Chunk(1, 1).Alloc(10 * process + 3, 1).Alloc(10 * process + 4, 1);
    TraceBuilder trace;
    BelongTo(Keep(ring.WriteTemporary()), &trace, pid);
    trace.CudaAlloc(10 * process + 1, 1).FlushBatch().CudaAlloc(10 * process + 2, 1).FlushBatch();
    both << std::ifstream(Keep(trace.WriteTemporary()), std::ios::binary).rdbuf();
  }
  both.close();
  TraceReader reader = *TraceReader::Open(path);
  std::vector<std::vector<uint64_t>> ahead;
  std::vector<uint64_t> firsts;
  while (reader.Next() != ItemType::kEndOfStream) {
    if (reader.type() != ItemType::kEvents) continue;
    std::vector<uint64_t>& seen = ahead.emplace_back();
    reader.LookAhead([&seen](const EventBatch& batch) {
      for (size_t i = 0; i < batch.count(); ++i) seen.push_back(batch.address(i));
      return true;
    });
    firsts.push_back(reader.batch().address(0));
  }
  EXPECT_THAT(firsts, ElementsAre(1, 2, 3, 11, 12, 13));
  EXPECT_THAT(ahead, ElementsAre(ElementsAre(2, 3, 4), ElementsAre(3, 4), IsEmpty(), ElementsAre(12, 13, 14),
                                 ElementsAre(13, 14), IsEmpty()));
}

TEST_F(RingRecovery, ARingAloneSaysWhatItKnows) {
  RingBuilder ring;
  std::strcpy(ring.header().program, "train");
  ring.header().parent_pid = 42;
  ring.header().anchor_monotonic_ns = 1'000;
  ring.header().anchor_realtime_ns = 2'000;
  ring.Chunk(1, 1).Alloc(11, 1);
  const absl::StatusOr<Recovery> recovery = RecoverRingAlone(Keep(ring.WriteTemporary()));
  ASSERT_TRUE(recovery.ok()) << recovery.status();
  trace::Header header;
  ASSERT_TRUE(header.ParseFromString(recovery->packets.at(0).body));
  EXPECT_EQ(header.program(), "train");
  EXPECT_EQ(header.parent_pid(), 42u);
  EXPECT_EQ(header.anchor_monotonic_ns(), 1'000u);
  EXPECT_EQ(header.anchor_realtime_ns(), 2'000u);
  EXPECT_EQ(recovery->events, 1u);
}

// Whether it runs cannot be told without its start time, so it is taken.
TEST_F(RingRecovery, ARingWithoutAStartTimeIsTaken) {
  RingBuilder ring(static_cast<uint32_t>(getpid()), 0);
  EXPECT_TRUE(RecoverRingAlone(Keep(ring.WriteTemporary())).ok());
}

}  // namespace
}  // namespace gpumem

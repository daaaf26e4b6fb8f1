// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/ring/ring_leftovers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "testing/ring_builder.h"
#include "testing/trace_builder.h"
#include "trace/reader.h"
#include "trace/ring/ring_file.h"
#include "trace/ring/ring_recovery.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::RingBuilder;
using testing::TraceBuilder;

constexpr uint32_t kGone = 0x7ffffff0;
constexpr uint64_t kTicks = 1234, kId = 0x5ab;

class RingLeftovers : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ring_leftovers.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    trace_ = folder_ + "/run.gmtrace";
    ring_ = absl::StrCat(folder_, "/gpumemshim.", kGone, ".", kTicks, ".", absl::Hex(kId), ".ring");
    char name[256] = "";
    gethostname(name, sizeof(name) - 1);
    TraceBuilder trace;
    trace.header().set_pid(kGone);
    trace.header().set_process_start_ticks(kTicks);
    trace.header().set_hostname(name);
    trace.header().mutable_ring()->set_path(ring_);
    trace.CudaAlloc(1, 1).FlushBatch();
    const std::string bytes = trace.Bytes();
    std::ofstream(trace_, std::ios::binary) << bytes;
  }
  void TearDown() override { fs::remove_all(folder_); }

  RingBuilder WithTwoEvents(uint64_t written_sequence = 0) const {
    RingBuilder ring(kGone, kTicks);
    ring.Chunk(1, 1).Stack(5, {0x10}).Alloc(11, 1, 5).Alloc(12, 1, 5).Mark(50);
    ring.BelongTo(trace_, kId, written_sequence);
    return ring;
  }
  absl::StatusOr<std::string> Clear() const {
    const std::vector<RingOnDisk> rings = FindRings(folder_);
    return rings.size() == 1 ? ClearRing(rings[0]) : absl::InternalError(absl::StrCat(rings.size(), " rings"));
  }

  std::string folder_, trace_, ring_;
};

TEST_F(RingLeftovers, ItsEventsAreFoundBesideTheTrace) {
  WithTwoEvents().Write(ring_);
  EXPECT_EQ(RecoverFromRing(trace_).events, 2u);
  const absl::StatusOr<std::string> where = Clear();
  ASSERT_TRUE(where.ok()) << where.status();
  EXPECT_EQ(*where, trace_ + ".ring");
  EXPECT_FALSE(fs::exists(ring_));
  const Recovery recovery = RecoverFromRing(trace_);
  EXPECT_EQ(recovery.events, 2u) << recovery.note;
  EXPECT_EQ(recovery.process, ProcessState::kEnded);
  EXPECT_FALSE(recovery.end_unknown);
  EXPECT_TRUE(FindRings(folder_).empty()) << "a copy is not a ring that is left";
}

// Its process was killed after the trace's first bytes, before the ring knew of them.
TEST_F(RingLeftovers, ARingThatDoesNotKnowItsTraceYetIsFoundBesideIt) {
  RingBuilder ring = WithTwoEvents();
  struct stat mounts {};
  ASSERT_EQ(stat("/proc/self/ns/mnt", &mounts), 0);
  ring.header().mount_namespace = mounts.st_ino;
  ring.header().trace_device = ring.header().trace_inode = 0;
  ring.Write(ring_);
  const absl::StatusOr<std::string> where = Clear();
  ASSERT_TRUE(where.ok()) << where.status();
  EXPECT_EQ(*where, trace_ + ".5ab.ring");
  const Recovery recovery = RecoverFromRing(trace_);
  EXPECT_EQ(recovery.events, 2u) << recovery.note;
  EXPECT_EQ(recovery.ring_path, *where);
  EXPECT_FALSE(recovery.end_unknown);
}

// Read on another machine, where nothing else tells that the process has ended.
TEST_F(RingLeftovers, TheTwoFilesCanBeMovedTogether) {
  WithTwoEvents().Write(ring_);
  ASSERT_TRUE(Clear().ok());
  fs::rename(trace_, folder_ + "/other.gmtrace");
  EXPECT_TRUE(RecoverFromRing(folder_ + "/other.gmtrace").end_unknown);
  fs::rename(trace_ + ".ring", folder_ + "/other.gmtrace.ring");
  EXPECT_EQ(RecoverFromRing(folder_ + "/other.gmtrace").events, 2u);
}

TEST_F(RingLeftovers, WhereNothingLacksTheCopyIsTheProof) {
  WithTwoEvents(50).Write(ring_);
  ASSERT_TRUE(Clear().ok());
  EXPECT_EQ(fs::file_size(trace_ + ".ring"), 4096u);
  const Recovery recovery = RecoverFromRing(trace_);
  EXPECT_TRUE(recovery.read_ring);
  EXPECT_EQ(recovery.events, 0u);
  EXPECT_FALSE(recovery.end_unknown);
  fs::remove(trace_ + ".ring");
  EXPECT_TRUE(RecoverFromRing(trace_).end_unknown);
}

// An exec keeps the process id and the start time; the number in the name tells the rings of two images apart.
TEST_F(RingLeftovers, AnotherImagesRingIsNotTaken) {
  RingBuilder ring = WithTwoEvents();
  ring.header().id = kId + 1;
  ring.header().moved = 1;
  ring.Write(trace_ + ".ring");
  const Recovery recovery = RecoverFromRing(trace_);
  EXPECT_FALSE(recovery.read_ring);
  EXPECT_TRUE(recovery.end_unknown);
}

TEST_F(RingLeftovers, WhatStaysSaysWhy) {
  RingBuilder ring = WithTwoEvents();
  ring.Write(ring_);
  const int holder = open(ring_.c_str(), O_RDWR);
  ASSERT_EQ(flock(holder, LOCK_EX), 0);
  EXPECT_THAT(Clear().status().message(), HasSubstr("not known to be gone"));
  close(holder);
  fs::rename(trace_, trace_ + ".away");
  EXPECT_THAT(Clear().status().message(), HasSubstr("no longer at"));
  fs::rename(trace_ + ".away", trace_);
  std::ofstream(trace_ + ".ring") << "somebody's";
  EXPECT_THAT(Clear().status().message(), HasSubstr("another file"));
  fs::remove(trace_ + ".ring");
  ring.header().trace_path[0] = 'x';
  ring.Write(ring_);
  EXPECT_THAT(Clear().status().message(), HasSubstr("does not name"));
  ring = WithTwoEvents();
  ring.header().layout_version = 2;
  ring.Write(ring_);
  EXPECT_THAT(Clear().status().message(), HasSubstr("earlier version"));
  EXPECT_TRUE(fs::exists(ring_));
  std::ofstream(ring_) << "nonsense";
  EXPECT_FALSE(Clear().ok());
}

TEST_F(RingLeftovers, AnEmptyRingWithoutATraceJustGoes) {
  RingBuilder ring(kGone, kTicks);
  ring.BelongTo(trace_, kId);
  ring.header().trace_device = ring.header().trace_inode = 0;
  ring.Write(ring_);
  const absl::StatusOr<std::string> where = Clear();
  ASSERT_TRUE(where.ok()) << where.status();
  EXPECT_EQ(*where, "");
  EXPECT_FALSE(fs::exists(ring_));
}

}  // namespace
}  // namespace gpumem

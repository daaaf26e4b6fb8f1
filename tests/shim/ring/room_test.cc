// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/room.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "shim/ring/layout.h"
#include "shim/ring/ring.h"

namespace gpumemshim::ring {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(RoomOfTest, AContainersSharedMemory) {
  const Room room = RoomOf({.mount_bytes = 64 * kMiB, .free_bytes = 64 * kMiB});
  EXPECT_EQ(room.most_bytes, kMiB);
  EXPECT_EQ(room.free_bytes, 4 * kMiB);
  EXPECT_EQ(room.growth_bytes, 2 * kMiB);
}

TEST(RoomOfTest, RingsAreCountedTogether) {
  RoomFacts facts = {.mount_bytes = 64 * kMiB, .free_bytes = 60 * kMiB, .rings_bytes = 3 * kMiB};
  EXPECT_EQ(RoomOf(facts).free_bytes, kMiB);
  EXPECT_EQ(RoomOf(facts).growth_bytes, 0u);
  facts.rings_bytes = 4 * kMiB;
  EXPECT_EQ(RoomOf(facts).free_bytes, 0u);
}

TEST(RoomOfTest, WhatOthersLeft) {
  EXPECT_EQ(RoomOf({.mount_bytes = 64 * kMiB, .free_bytes = 2 * kMiB}).free_bytes, kMiB / 4);
  EXPECT_EQ(RoomOf({.mount_bytes = 64 * kMiB, .free_bytes = 0}).free_bytes, 0u);
}

TEST(RoomOfTest, AWholeMachine) {
  const Room room = RoomOf({.mount_bytes = 32768 * kMiB, .free_bytes = 32768 * kMiB});
  EXPECT_GE(room.most_bytes, 8 * kDefaultSizeBytes);
  EXPECT_GE(room.free_bytes, 32 * kDefaultSizeBytes);
}

TEST(RoomOfTest, NoneWhereThereIsNextToNothing) {
  EXPECT_EQ(RoomOf({.mount_bytes = 2 * kMiB, .free_bytes = 2 * kMiB}).most_bytes, 0u);
}

TEST(RoomOfTest, AMountWithoutALimit) {
  EXPECT_GE(RoomOf({}).most_bytes, kMaxSizeBytes);
  EXPECT_GE(RoomOf({}).free_bytes, kMaxSizeBytes);
}

// Memory of another kind would count as much, so the least ring is had all the same.
TEST(RoomOfTest, ATightMemoryCgroup) {
  RoomFacts facts = {.mount_bytes = 32768 * kMiB, .free_bytes = 32768 * kMiB, .memory_bytes = 16 * kMiB};
  EXPECT_EQ(RoomOf(facts).free_bytes, 2 * kMiB);
  facts.memory_bytes = 0;
  EXPECT_EQ(RoomOf(facts).free_bytes, 2 * kMinSizeBytes);
}

class MemoryLeftTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(root_), nullptr); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  uint64_t Left() const { return MemoryLeft(root_); }

  char root_[32] = "/tmp/memory_left.XXXXXX";
};

TEST_F(MemoryLeftTest, NothingToReadIsNoLimit) { EXPECT_EQ(Left(), kNoLimit); }

TEST_F(MemoryLeftTest, TheTightestGroupOfVersion2) {
  Put("/proc/self/cgroup", "0::/job/task\n");
  Put("/sys/fs/cgroup/job/task/memory.max", "max\n");
  Put("/sys/fs/cgroup/job/task/memory.current", "900\n");
  EXPECT_EQ(Left(), kNoLimit);
  Put("/sys/fs/cgroup/job/memory.max", "1000\n");
  Put("/sys/fs/cgroup/job/memory.current", "900\n");
  EXPECT_EQ(Left(), 100u);
  Put("/sys/fs/cgroup/job/memory.stat", "anon 500\ninactive_file 250\nactive_file 10\n");
  EXPECT_EQ(Left(), 350u);
  Put("/sys/fs/cgroup/job/memory.current", "2000\n");
  EXPECT_EQ(Left(), 0u);
}

TEST_F(MemoryLeftTest, AContainerThatSeesItsGroupAsTheRoot) {
  Put("/proc/self/cgroup", "0::/\n");
  Put("/sys/fs/cgroup/memory.max", "1000\n");
  Put("/sys/fs/cgroup/memory.current", "400\n");
  EXPECT_EQ(Left(), 600u);
}

TEST_F(MemoryLeftTest, Version1WhoseMountIsTheGroup) {
  Put("/proc/self/cgroup", "12:cpu,cpuacct:/x\n7:memory:/docker/abc\n0::/x\n");
  Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "400\n");
  EXPECT_EQ(Left(), kNoLimit);
  Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
  EXPECT_EQ(Left(), 600u);
}

TEST_F(MemoryLeftTest, NonsenseIsNoLimit) {
  Put("/proc/self/cgroup", "0\n::\n5:memory\n0::/a\n");
  Put("/sys/fs/cgroup/a/memory.max", "-5\n");
  EXPECT_EQ(Left(), kNoLimit);
  Put("/sys/fs/cgroup/a/memory.max", "99999999999999999999999999\n");
  EXPECT_EQ(Left(), kNoLimit);
}

TEST(RoomInTest, ADirectoryThatIsNotThereHasNone) { EXPECT_EQ(RoomIn("/no/such/folder").most_bytes, 0u); }
TEST(RoomInTest, SharedMemoryHasSome) { EXPECT_GE(RoomIn("/dev/shm").most_bytes, kMinSizeBytes); }

// A ring that claims a small part of what all may take, as a killed process leaves it: a dozen such are an afternoon's.
class DeadRingsRoomTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_), nullptr);
    header_.magic = kMagic;
    header_.locked = 1;
    RoomFacts empty;
    ASSERT_TRUE(ReadRoomFacts(folder_, &empty));
    if (empty.mount_bytes == 0) GTEST_SKIP() << folder_ << " is in a file system without a size";
    claim_ = empty.mount_bytes / kShareOfMount / 16;
    ring_ = open((std::string(folder_) + "/gpumemshim.7.7.7.ring").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(ring_, 0);
  }
  void TearDown() override {
    if (ring_ >= 0) close(ring_);
    std::filesystem::remove_all(folder_);
  }
  uint64_t Counted() {
    EXPECT_EQ(pwrite(ring_, &header_, sizeof(header_), 0), static_cast<ssize_t>(sizeof(header_)));
    EXPECT_EQ(ftruncate(ring_, static_cast<off_t>(claim_)), 0);
    RoomFacts facts;
    EXPECT_TRUE(ReadRoomFacts(folder_, &facts));
    return facts.rings_bytes;
  }

  char folder_[32] = "/tmp/dead_rings_room.XXXXXX";
  RingHeader header_{};
  uint64_t claim_ = 0;
  int ring_ = -1;
};

TEST_F(DeadRingsRoomTest, CountsWhatItTakes) {
  const uint64_t counted = Counted();
  EXPECT_GE(counted, sizeof(header_));
  EXPECT_LT(counted, kMiB);
}

TEST_F(DeadRingsRoomTest, WhoseOwnerIsThereCountsWithItsClaim) {
  ASSERT_EQ(flock(ring_, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(Counted(), claim_);
}

TEST_F(DeadRingsRoomTest, OfAnOwnerThatNeverHeldItOrIsStillBeginningCountsWithItsClaim) {
  header_.locked = 0;
  EXPECT_EQ(Counted(), claim_);
  header_ = {};
  EXPECT_EQ(Counted(), claim_);
}

}  // namespace
}  // namespace gpumemshim::ring

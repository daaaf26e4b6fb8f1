// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Small files that ask for much: what reading and replaying them does is in proportion to their bytes. Work is counted
// (events, looks, bytes from the disk); the limits on the child process are a stop for what the counts do not see.

#include "testing/bombs.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "replay/analyze.h"
#include "trace/limits.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

using testing::Bomb;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class Bombs : public ::testing::Test {
 protected:
  static std::string PathOf(const Bomb& bomb) {
    const std::string path = ::testing::TempDir() + "/bomb." + bomb.name + "." + std::to_string(getpid());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bomb.bytes;
    return path;
  }
};

TEST_F(Bombs, ReadNoMoreEventsThanTheirBytesAllow) {
  for (const Bomb& bomb : testing::MakeBombs()) {
    const std::string path = PathOf(bomb);
    absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
    ASSERT_TRUE(reader.ok()) << bomb.name << reader.status();
    uint64_t events = 0, packets = 0;
    for (ItemType type = reader->Next(); type != ItemType::kEndOfStream; type = reader->Next()) {
      if (type == ItemType::kEvents) events += reader->batch().count();
      ++packets;
    }
    std::remove(path.c_str());
    EXPECT_LE(events, kMaxEventsPerByte * bomb.bytes.size() + kAlwaysEvents * packets) << bomb.name;
    EXPECT_LE(reader->stacks().stack_count() + reader->stacks().frame_count(), kMaxRatio * bomb.bytes.size())
        << bomb.name;
  }
}

TEST_F(Bombs, AreSearchedInProportion) {
  for (const Bomb& bomb : testing::MakeBombs()) {
    const std::string path = PathOf(bomb);
    absl::StatusOr<PacketReader> reader = PacketReader::Open(path);
    ASSERT_TRUE(reader.ok()) << bomb.name;
    RawPacket packet;
    while (reader->Next(&packet) == PacketReader::Outcome::kPacket) {
    }
    std::remove(path.c_str());
    EXPECT_LE(reader->bytes_read(), (64u << 20) + 32 * bomb.bytes.size()) << bomb.name;
  }
}

TEST_F(Bombs, AreAnsweredWithinLimits) {
  for (const Bomb& bomb : testing::MakeBombs()) {
    const std::string path = PathOf(bomb);
    const pid_t child = fork();
    if (child == 0) {
      const rlimit cpu{20, 20}, memory{uint64_t{1} << 30, uint64_t{1} << 30};
      if (!kSanitized && (setrlimit(RLIMIT_CPU, &cpu) != 0 || setrlimit(RLIMIT_AS, &memory) != 0)) _exit(9);
      StackTable stacks;
      const absl::StatusOr<Analysis> analysis = Analyze(path, {}, &stacks);
      if (!analysis.ok()) _exit(1);
      for (const DeviceAnalysis& device : analysis->devices) {
        for (const StackUse& use : device.at_peak_total.stacks) stacks.Frames(use.stack_id);
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::remove(path.c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << bomb.name << " of " << bomb.bytes.size()
        << " bytes: " << (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : "could not be read");
  }
}

}  // namespace
}  // namespace gpumem

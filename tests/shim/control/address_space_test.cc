// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/loader/address_space.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace gpumemshim::control {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// In a child whose limit `which` is `limit_bytes`: the room in MiB, 255 for more than that.
int RoomInMiB(int which, uint64_t limit_bytes) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {limit_bytes, limit_bytes};
    setrlimit(static_cast<__rlimit_resource>(which), &limit);
    const uint64_t room = RoomInAddressSpace() / kMiB;
    _exit(room > 255 ? 255 : static_cast<int>(room));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST(AddressSpace, WithoutALimitThereIsRoom) {
  EXPECT_EQ(RoomInMiB(RLIMIT_CORE, 0), 255);
  Settings settings;
  EXPECT_EQ(FitSettings(UINT64_MAX, &settings), Fit::kAll);
  EXPECT_EQ(settings.sample_ms, Settings().sample_ms);
}

TEST(AddressSpace, AFullOneHasNone) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer ends a child that may map nothing more";
#endif
  EXPECT_EQ(RoomInMiB(RLIMIT_AS, kMiB), 0);
  EXPECT_EQ(RoomInMiB(RLIMIT_DATA, 1), 0);
}

TEST(AddressSpace, GrowsWithTheLimitAndShrinksWithUse) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes terabytes of address space for itself";
#endif
  uint64_t limit = 8 * kMiB;
  while (RoomInMiB(RLIMIT_AS, limit) < 60) limit += 16 * kMiB;
  const int before = RoomInMiB(RLIMIT_AS, limit);
  EXPECT_EQ(RoomInMiB(RLIMIT_AS, limit + 20 * kMiB), before + 20);
  void* memory = mmap(nullptr, 40 * kMiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(RoomInMiB(RLIMIT_AS, limit), before - 40);
  munmap(memory, 40 * kMiB);
}

TEST(AddressSpace, LessIsTakenWhereThereIsLess) {
  Settings settings;
  EXPECT_EQ(FitSettings(kAmpleRoomBytes - 1, &settings), Fit::kReduced);
  EXPECT_EQ(settings.sample_ms, 0u);
  EXPECT_FALSE(settings.control);
  EXPECT_EQ(settings.ring_size_bytes, kSmallRingBytes);
  settings.ring_size_bytes = 4096;  // asked for less
  EXPECT_EQ(FitSettings(kLeastRoomBytes, &settings), Fit::kReduced);
  EXPECT_EQ(settings.ring_size_bytes, 4096u);
  EXPECT_EQ(FitSettings(kLeastRoomBytes - 1, &settings), Fit::kNone);
}

TEST(AddressSpace, TheLineSaysHowMuchIsMissing) {
  char line[256];
  const std::string text(line, NoRoomLine(2 * kMiB + 5, line, sizeof line));
  EXPECT_NE(text.find("leaves 2 MiB"), std::string::npos) << text;
  EXPECT_NE(text.find("wants 128 MiB"), std::string::npos) << text;
  EXPECT_EQ(text.back(), '\n');
  EXPECT_LT(NoRoomLine(0, line, 10), 10u);
}

}  // namespace
}  // namespace gpumemshim::control

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/mapping.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "ring_fixture.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

TEST_F(RingTest, FileIsPrivateWholeAndGoesAway) {
  StartRing();
  std::string path = Path();
  EXPECT_EQ(path.rfind(folder_ + "/gpumemshim." + std::to_string(getpid()) + ".", 0), 0u) << path;
  struct stat s;
  ASSERT_EQ(stat(path.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0600u);
  EXPECT_LE(static_cast<uint64_t>(s.st_size), kDefaultSizeBytes);
  EXPECT_GE(static_cast<uint64_t>(s.st_blocks) * 512, GetStats().present_bytes)
      << "blocks must be there before they are stored to";
  Stop(1000);
  Unlink();
  EXPECT_NE(stat(path.c_str(), &s), 0);
}

TEST_F(RingTest, WithoutADirectoryItIsAnonymous) {
  for (const char* directory : {static_cast<const char*>(nullptr), "/nonexistent"}) {
    Config config;
    config.directory = directory;
    ASSERT_TRUE(Start(config));
    EXPECT_STREQ(Path(), "");
    Event event = MakeEvent(EventKind::kAlloc, 1);
    EXPECT_TRUE(Record(event));
    Stop(1000);
    Unlink();
  }
}

// No room for the file: an error at the start, never a SIGBUS later. A limit on file sizes stands in for a full tmpfs.
TEST_F(RingTest, NoRoomFallsBackToAnonymousMemory) {
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {100 << 10, 100 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    Config config;
    bool good = Start(config) && Path()[0] == '\0';
    Event event = MakeEvent(EventKind::kAlloc, 1);
    good = good && Record(event);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(RingTest, HeaderSaysWhereThingsAre) {
  Config config = OwnConfig();
  config.first_chunks = UINT32_MAX;
  config.api_count = 3;
  config.api_name = [](uint16_t api) -> const char* {
    return api == 0 ? nullptr : api == 1 ? "cudaMalloc" : "cudaFree";
  };
  ASSERT_TRUE(Start(config));
  const RingHeader* header = g_state.header;
  EXPECT_EQ(memcmp(&header->magic, "GPUMRING", 8), 0);
  EXPECT_EQ(header->pid, static_cast<uint32_t>(getpid()));
  EXPECT_NE(header->process_start_ticks, 0u);
  EXPECT_LE(header->chunks_offset + uint64_t{header->chunk_count} * header->chunk_bytes, header->size_bytes);
  EXPECT_GT(header->chunk_count, 500u);
  const char* names = reinterpret_cast<const char*>(header) + header->api_names_offset;
  EXPECT_EQ(memcmp(names, "\0cudaMalloc\0cudaFree\0", 21), 0);
}

TEST(ProcessStartTicksTest, DiffersFromNothing) { EXPECT_GT(ProcessStartTicks(), 0u); }

}  // namespace
}  // namespace gpumemshim::ring

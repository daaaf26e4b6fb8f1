// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/ctl_snapshot.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "testing/trace_builder.h"

namespace gpumem {
namespace {

TEST(SnapshotTest, IsOfATraceAndNothingElse) {
  const std::string trace = testing::TraceBuilder().CudaAlloc(0x1000, 4096).FlushBatch().WriteTemporary();
  const std::string to = trace + ".snapshot", pipe = trace + ".pipe", text = trace + ".text";
  const uint64_t bytes = std::filesystem::file_size(trace);
  ASSERT_TRUE(TakeSnapshot(getpid(), trace, bytes, to, false).ok());
  EXPECT_GT(std::filesystem::file_size(to), bytes);
  // What a process may name as the file that it writes: a pipe that nobody writes to, a file of others.
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(text) << "a secret";
  for (const std::string& other : {pipe, text, std::string("/dev/zero"), std::string("/proc/self/environ")}) {
    EXPECT_FALSE(TakeSnapshot(getpid(), other, 8, to + "2", false).ok()) << other;
    EXPECT_FALSE(std::filesystem::exists(to + "2")) << other;
  }
}

}  // namespace
}  // namespace gpumem

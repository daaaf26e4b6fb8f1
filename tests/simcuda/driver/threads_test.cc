// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include <thread>

#include "tests/simcuda/driver/driver_fixture.h"
#include "tests/simcuda/driver/log_reader.h"

namespace simcuda {
namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 300;

// Allocates, frees some, keeps every tenth; returns the bytes kept.
uint64_t Work(unsigned seed) {
  UsePrimaryContext(static_cast<int>(seed % 2));
  uint64_t kept = 0;
  for (int round = 0; round < kRounds; ++round) {
    seed = seed * 1664525u + 1013904223u;
    const size_t size = 1 + seed % (4u << 20);
    CUdeviceptr pointer = 0;
    EXPECT_EQ(round % 2 == 0 ? cuMemAlloc(&pointer, size) : cuMemAllocAsync(&pointer, size, nullptr), CUDA_SUCCESS);
    if (round % 10 == 0) {
      kept += size;
    } else {
      EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
    }
  }
  return kept;
}

TEST(ThreadsTest, EightThreadsAgreeWithTheLog) {
  const std::string path = TemporaryPath("threads");
  ASSERT_EQ(RunInChild({{"SIMCUDA_LOG", path}, {"SIMCUDA_DEVICES", "2"}},
                       [&path] {
                         uint64_t kept[kThreads] = {};
                         std::vector<std::thread> threads;
                         for (unsigned i = 0; i < kThreads; ++i)
                           threads.emplace_back([&kept, i] { kept[i] = Work(i); });
                         for (std::thread& thread : threads) thread.join();
                         uint64_t expected[2] = {}, live[2] = {}, last[2] = {};
                         for (int i = 0; i < kThreads; ++i) expected[i % 2] += kept[i];
                         uint64_t sequence = 0, time = 0;
                         for (const LogLine& line : ReadLog(path)) {
                           EXPECT_EQ(Number(line.at("seq")), ++sequence);
                           EXPECT_GE(Number(line.at("time_ns")), time);
                           time = Number(line.at("time_ns"));
                           const size_t device = Number(line.at("device"));
                           if (line.at("kind") == "alloc") live[device] += Number(line.at("size"));
                           if (line.at("kind") == "free") live[device] -= Number(line.at("size"));
                           last[device] = Number(line.at("live_bytes"));
                           EXPECT_EQ(last[device], live[device]);
                         }
                         EXPECT_GE(sequence, static_cast<uint64_t>(kThreads * kRounds));
                         EXPECT_EQ(live[0], expected[0]);
                         EXPECT_EQ(live[1], expected[1]);
                       }),
            0);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace simcuda

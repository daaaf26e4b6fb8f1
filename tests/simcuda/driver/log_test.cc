// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include <gmock/gmock.h>

#include "tests/simcuda/driver/driver_fixture.h"
#include "tests/simcuda/driver/log_reader.h"

namespace simcuda {
namespace {

using testing::ElementsAre;

TEST(LogTest, TellsEveryMemoryCallInOrder) {
  const std::string path = TemporaryPath("log");
  ASSERT_EQ(RunInChild({{"SIMCUDA_LOG", path}, {"SIMCUDA_MEM_MB", "1000"}, {"SIMCUDA_CTX_MB", "100"}},
                       [] {
                         UsePrimaryContext();
                         CUdeviceptr a = 0, b = 0;
                         cuMemAlloc(&a, 1000);
                         cuMemAllocAsync(&b, 3 << 20, nullptr);
                         cuMemAlloc(&b, size_t{2} << 30);
                         cuMemFree(a);
                         cuMemFree(a);
                       }),
            0);
  const std::vector<LogLine> log = ReadLog(path);
  ::unlink(path.c_str());
  std::vector<std::string> kinds, live, used, results;
  for (const LogLine& line : log) {
    kinds.push_back(line.at("kind"));
    live.push_back(line.at("live_bytes"));
    used.push_back(line.at("used_bytes"));
    results.push_back(line.at("result"));
  }
  EXPECT_THAT(kinds, ElementsAre("context_create", "alloc", "alloc", "alloc_failed", "free", "free_failed"));
  EXPECT_THAT(results, ElementsAre("0", "0", "0", "2", "0", "1"));
  EXPECT_THAT(live, ElementsAre("0", "1000", "3146728", "3146728", "3145728", "3145728"));
  EXPECT_THAT(used, ElementsAre("104857600", "106954752", "111149056", "111149056", "109051904", "109051904"));
  EXPECT_EQ(log[1].at("address"), log[4].at("address"));
  EXPECT_EQ(log[1].at("api"), "cuMemAlloc_v2");
  EXPECT_EQ(log[4].at("size"), "1000");
}

TEST(LogTest, TwoRunsGiveTheSameAddresses) {
  std::vector<std::string> runs[2];
  for (auto& run : runs) {
    const std::string path = TemporaryPath("same");
    ASSERT_EQ(RunInChild({{"SIMCUDA_LOG", path}},
                         [] {
                           UsePrimaryContext();
                           CUdeviceptr pointers[50];
                           for (size_t i = 0; i < 50; ++i) cuMemAlloc(&pointers[i], 300 + i * i * 4000);
                           for (size_t i = 0; i < 50; i += 3) cuMemFree(pointers[i]);
                           for (size_t i = 0; i < 50; i += 3) cuMemAlloc(&pointers[i], 5000 * (50 - i));
                         }),
              0);
    for (const LogLine& line : ReadLog(path)) run.push_back(line.at("address"));
    ::unlink(path.c_str());
  }
  EXPECT_EQ(runs[0].size(), 1u + 50 + 17 + 17);
  EXPECT_EQ(runs[0], runs[1]);
}

}  // namespace
}  // namespace simcuda

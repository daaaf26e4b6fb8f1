// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/device_sampler.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <vector>

namespace gpumemshim::sampler {
namespace {

ProcessUse Use(uint32_t pid, uint64_t bytes) { return {pid, bytes, ""}; }

DeviceSample Split(bool machine_ids, std::vector<ProcessUse> processes) {
  DeviceSample sample;
  sample.Reset(0);
  SplitProcesses(/*own_pid=*/500, machine_ids, processes.data(), static_cast<uint32_t>(processes.size()), &sample);
  return sample;
}

TEST(OwnProcessTest, ByPidWhereIdsAreTheMachines) {
  const DeviceSample sample = Split(true, {Use(1, 10), Use(500, 20), Use(2, 30)});
  EXPECT_EQ(sample.own_process, OwnProcess::kByPid);
  EXPECT_EQ(sample.own, 20u);
  ASSERT_EQ(sample.other_count, 2u);
  ASSERT_EQ(sample.others_kept, 2u);
  EXPECT_EQ(sample.others[0].pid, 2u);  // the largest first
  EXPECT_EQ(sample.others[1].pid, 1u);
}

TEST(OwnProcessTest, NotListedIsNotKnown) {
  const DeviceSample sample = Split(true, {Use(1, 10)});
  EXPECT_EQ(sample.own_process, OwnProcess::kNotFound);
  EXPECT_EQ(sample.own, kUnknown);  // MPS lists its server in our place
  EXPECT_EQ(sample.other_count, 1u);
}

TEST(OwnProcessTest, InsideAContainerTheOnlyProcessIsThisOne) {
  const DeviceSample sample = Split(false, {Use(31337, 10)});
  EXPECT_EQ(sample.own_process, OwnProcess::kOnlyOne);
  EXPECT_EQ(sample.own, 10u);
  EXPECT_EQ(sample.other_count, 0u);
}

TEST(OwnProcessTest, InsideAContainerSeveralForeignIdsTellNothing) {
  const DeviceSample sample = Split(false, {Use(31337, 10), Use(31338, 20)});
  EXPECT_EQ(sample.own_process, OwnProcess::kNotFound);
  EXPECT_EQ(sample.own, kUnknown);
  EXPECT_EQ(sample.other_count, 2u);
  EXPECT_STREQ(sample.others[0].name, "");  // the id names another process here, or none
}

TEST(OwnProcessTest, InsideAContainerTheDriverMayTranslate) {
  const DeviceSample sample = Split(false, {Use(500, 10), Use(31338, kUnknown)});
  EXPECT_EQ(sample.own_process, OwnProcess::kByPidInside);
  EXPECT_EQ(sample.own, 10u);
  ASSERT_EQ(sample.others_kept, 1u);
  EXPECT_EQ(sample.others[0].bytes, kUnknown);
}

TEST(OwnProcessTest, KeepsTheLargestOfMany) {
  std::vector<ProcessUse> processes;
  for (uint32_t i = 0; i < kMaxOthers + 10; i++) processes.push_back(Use(1000 + i, i));
  const DeviceSample sample = Split(true, processes);
  EXPECT_EQ(sample.other_count, kMaxOthers + 10);
  ASSERT_EQ(sample.others_kept, kMaxOthers);
  EXPECT_EQ(sample.others[0].bytes, kMaxOthers + 9);
  EXPECT_EQ(sample.others[kMaxOthers - 1].bytes, 10u);
}

TEST(OwnProcessTest, NamesAProcessOfThisNamespace) {
  ASSERT_EQ(prctl(PR_SET_NAME, "a name", 0, 0, 0), 0);
  char name[32];
  ReadProcessName(static_cast<uint32_t>(getpid()), name, sizeof(name));
  EXPECT_STREQ(name, "a name");
  ReadProcessName(1u << 30, name, sizeof(name));
  EXPECT_STREQ(name, "");
}

TEST(MachineMemoryTest, FindsALine) {
  constexpr const char* kText = "MemTotal:       65536 kB\nMemFree:  1 kB\nMemAvailable:   512 kB\n";
  EXPECT_EQ(FindKilobytes(kText, "MemTotal"), uint64_t{65536} << 10);
  EXPECT_EQ(FindKilobytes(kText, "MemAvailable"), uint64_t{512} << 10);
  EXPECT_EQ(FindKilobytes(kText, "Mem"), 0u);
  EXPECT_EQ(FindKilobytes("", "MemTotal"), 0u);
}

TEST(MachineMemoryTest, ThisMachineHasSome) {
  uint64_t total = 0, available = 0;
  ReadMachineMemory(&total, &available);
  EXPECT_GT(total, available);
  EXPECT_GT(ResidentBytes(), 0u);
  EXPECT_LT(ResidentBytes(), total);
}

}  // namespace

}  // namespace gpumemshim::sampler

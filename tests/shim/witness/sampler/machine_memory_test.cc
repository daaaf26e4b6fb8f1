// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/machine_memory.h"

#include <gtest/gtest.h>

namespace gpumemshim::sampler {
namespace {

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

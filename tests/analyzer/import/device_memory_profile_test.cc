// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// JAX's device memory profiles, from a file to the answer.

#include "import/device_memory_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "imported.h"

namespace gpumem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes.push_back(static_cast<char>(value | 128));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string WireField(uint32_t number, uint64_t value) { return Varint(number << 3) + Varint(value); }
std::string WireField(uint32_t number, const std::string& bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + bytes;
}

// Strings by their place in this list.
const std::vector<std::string> kStrings = {"",         "allocations", "count",      "space",  "bytes",
                                           "kind",     "buffer",      "device",     "cuda:1", "main",
                                           "train.py", "TFRT_CPU_0",  "executable", "inner"};

std::string Sample(uint64_t count, uint64_t bytes, uint64_t device, uint64_t kind = 6) {
  std::string sample = WireField(1, Varint(2) + Varint(1)) + WireField(2, Varint(count) + Varint(bytes)) +
                       WireField(3, WireField(1, 5) + WireField(2, kind));
  if (device != 0) sample += WireField(3, WireField(1, 7) + WireField(2, device));
  return WireField(2, sample);
}

std::string JaxProfile(const std::string& samples) {
  std::string bytes =
      WireField(1, WireField(1, 1) + WireField(2, 2)) + WireField(1, WireField(1, 3) + WireField(2, 4)) + samples;
  bytes += WireField(4, WireField(1, 1) + WireField(4, WireField(1, 1) + WireField(2, 12)));
  bytes += WireField(4, WireField(1, 2) + WireField(4, WireField(1, 2) + WireField(2, 7)));
  bytes += WireField(5, WireField(1, 1) + WireField(2, 9) + WireField(4, 10)) +
           WireField(5, WireField(1, 2) + WireField(2, 13) + WireField(4, 10));
  for (const std::string& each : kStrings) bytes += WireField(6, each);
  return bytes;
}

TEST(DeviceMemoryProfileTest, IsOneMoment) {
  const std::string bytes =
      JaxProfile(Sample(3, 1000, 8) + Sample(1, 24, 8) + Sample(2, 50, 11) + Sample(1, 777, 0, 12));
  for (const std::string& each : {bytes, Gzip(bytes)}) {
    ImportResult result;
    const auto analysis = Import(each, &result);
    ASSERT_TRUE(analysis.ok()) << analysis.status();
    ASSERT_EQ(analysis->devices.size(), 1u);
    EXPECT_EQ(analysis->devices[0].device, 1);
    EXPECT_EQ(analysis->devices[0].name, "cuda:1");
    EXPECT_EQ(analysis->devices[0].end.total, 1024u);
    EXPECT_EQ(analysis->devices[0].leaks.at_end_cuda.block_count, 4u);
    EXPECT_EQ(result.covers, "moment");
    EXPECT_THAT(result.notes, Contains(HasSubstr("2 buffers of CPUs or TPUs were left out")));
    EXPECT_THAT(result.notes,
                Contains(HasSubstr("1 compiled program, 777 B of code on no named device, was left out")));
  }
}

TEST(DeviceMemoryProfileTest, RefusesWhatIsNone) {
  EXPECT_THAT(std::string(Import(JaxProfile(Sample(2, 50, 11))).status().message()),
              HasSubstr("no buffer of a GPU (2 of"));
  std::string cpu = WireField(1, WireField(1, 1) + WireField(2, 2));  // one value, as a profile of time has
  for (const std::string& each : kStrings) cpu += WireField(6, each);
  EXPECT_THAT(std::string(Import(cpu).status().message()), HasSubstr("none of memory"));
  const std::string whole = JaxProfile(Sample(3, 1000, 8));
  for (size_t size = 12; size < whole.size(); ++size) {
    const auto cut = Import(whole.substr(0, size));
    EXPECT_TRUE(cut.ok() || absl::IsDataLoss(cut.status())) << size;
  }
  EXPECT_FALSE(Import(whole.substr(0, whole.size() - 3)).ok());
}

}  // namespace
}  // namespace gpumem

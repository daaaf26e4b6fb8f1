// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Profiles of XLA, from a file to the answer.

#include "import/xspace_profile.h"

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

std::string XVarint(uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes.push_back(static_cast<char>(value | 128));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string XField(uint32_t number, uint64_t value) { return XVarint(number << 3) + XVarint(value); }
std::string XField(uint32_t number, const std::string& bytes) {
  return XVarint(number << 3 | 2) + XVarint(bytes.size()) + bytes;
}
std::string Named(uint32_t field, uint64_t id, const std::string& name) {
  return XField(field, XField(1, id) + XField(2, XField(1, id) + XField(2, name)));
}

struct Fact {
  bool allocates;
  uint64_t at_ns, address, bytes, allocated;
  std::string allocator = "GPU_1_bfc";
};

std::string Plane(const std::vector<Fact>& facts) {
  std::string line = XField(1, 77) + XField(3, 1700000000000000000);
  for (const Fact& fact : facts) {
    const std::string stats =
        XField(4, XField(1, 1) + XField(5, fact.allocator)) + XField(4, XField(1, 2) + XField(4, fact.allocated)) +
        XField(4, XField(1, 3) + XField(4, fact.bytes)) + XField(4, XField(1, 4) + XField(3, fact.address)) +
        XField(4, XField(1, 5) + XField(7, 6));
    line += XField(4, XField(1, fact.allocates ? 8 : 9) + XField(2, fact.at_ns * 1000) + stats);
  }
  std::string plane =
      XField(2, "/host:CPU") + XField(3, line) + Named(4, 8, "MemoryAllocation") + Named(4, 9, "MemoryDeallocation");
  const char* const names[] = {"allocator_name", "bytes_allocated", "allocation_bytes", "addr", "tf_op", "jit_step"};
  for (uint64_t i = 0; i < std::size(names); ++i) plane += Named(5, i + 1, names[i]);
  return XField(1, plane);
}

TEST(XSpaceTest, HasTheBlocksOfAllocators) {
  const std::string bytes = Plane({{true, 10, 4096, 100, 1100},
                                   {false, 20, 8192, 300, 800},
                                   {true, 15, 4096, 70, 70, "xla_gpu_host_bfc"},
                                   {true, 16, 4096, 70, 70, "tpu"},
                                   {false, 30, 4096, 100, 700}});
  ImportResult result;
  StackTable stacks;
  const auto analysis = Import(Gzip(bytes), &result, &stacks);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->devices.size(), 1u);
  EXPECT_EQ(analysis->devices[0].device, 1);
  EXPECT_EQ(analysis->devices[0].peak_total.bytes, 1100u);
  EXPECT_EQ(analysis->devices[0].end.total, 700u);
  EXPECT_EQ(analysis->host_pinned_peak, 70u);
  EXPECT_EQ(analysis->process.anchor_realtime_ns, 1700000000000000010u);
  EXPECT_THAT(result.notes, Contains(HasSubstr("GPU 1: 1000 B were allocated before the profile began")));
}

TEST(XSpaceTest, RefusesWhatIsNone) {
  EXPECT_THAT(std::string(Import(Plane({})).status().message()), HasSubstr("without an event of a GPU's allocator"));
  const std::string whole = Plane({{true, 10, 4096, 100, 1100}, {false, 20, 8192, 300, 800}});
  for (size_t size = 20; size < whole.size(); ++size)
    EXPECT_TRUE(absl::IsDataLoss(Import(whole.substr(0, size)).status())) << size;
}

}  // namespace
}  // namespace gpumem

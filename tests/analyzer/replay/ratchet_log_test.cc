// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/ratchet_log.h"

#include <gmock/gmock.h>

#include "analyze_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using ::testing::IsEmpty;
using testing::kMiB;
using ::testing::SizeIs;
using testing::TraceBuilder;

constexpr uint64_t kFirst = 0x7f0000000000;
constexpr uint64_t kStack = 7;

class Requests {
 public:
  Requests() { trace_.Device(0, "GPU", 100'000 * kMiB); }
  // A block, of a segment made for it, and gone again.
  Requests& InNewSegment(uint64_t size, uint64_t stack = kStack) {
    const uint64_t at = kFirst + next_++ * 4096 * kMiB;
    trace_.CudaAlloc(at, size * kMiB).TorchAlloc(at, size * kMiB, stack).TorchFree(at, size * kMiB);
    return *this;
  }
  std::vector<SizeRatchet> Run() {
    const Analysis analysis = AnalyzeTrace(trace_.End());
    return analysis.devices.empty() ? std::vector<SizeRatchet>{} : analysis.devices[0].fragmentation.ratchets;
  }
  TraceBuilder& trace() { return trace_; }

 private:
  TraceBuilder trace_;
  uint64_t next_ = 0;
};

TEST(RatchetLog, EverLargerRequestsOfOneStack) {
  Requests program;
  for (uint64_t i = 0; i < 10; ++i) program.InNewSegment(20 + 2 * i);
  const std::vector<SizeRatchet> ratchets = program.Run();
  ASSERT_THAT(ratchets, SizeIs(1));
  EXPECT_EQ(ratchets[0].stack_id, kStack);
  EXPECT_EQ(ratchets[0].segments, 10);
  EXPECT_EQ(ratchets[0].bytes, (20 + 38) * 5 * kMiB);
  EXPECT_EQ(ratchets[0].first, 20 * kMiB);
  EXPECT_EQ(ratchets[0].last, 38 * kMiB);
}

TEST(RatchetLog, SizesThatComeAndGoAreNone) {
  Requests program;
  for (uint64_t i = 0; i < 30; ++i) program.InNewSegment(i % 3 == 0 ? 20 + i : 20);
  EXPECT_THAT(program.Run(), IsEmpty());
}

TEST(RatchetLog, StacksOfTheirOwnEach) {
  Requests program;
  for (uint64_t i = 0; i < 10; ++i) program.InNewSegment(20 + 2 * i, 100 + i);
  EXPECT_THAT(program.Run(), IsEmpty());
}

TEST(RatchetLog, ABlockOfAnotherSegmentIsNone) {
  Requests program;
  program.trace().CudaAlloc(kFirst - 4096 * kMiB, 2048 * kMiB);
  for (uint64_t i = 0; i < 10; ++i) {
    program.trace().CudaAlloc(kFirst + i * 256 * kMiB, (20 + i) * kMiB);  // the program's own
    program.trace().TorchAlloc(kFirst - 4096 * kMiB, (20 + i) * kMiB, kStack);
    program.trace().TorchFree(kFirst - 4096 * kMiB, (20 + i) * kMiB);
  }
  EXPECT_THAT(program.Run(), IsEmpty());
}

TEST(RatchetLog, SmallBlocksShareSegments) {
  Requests program;
  for (uint64_t i = 0; i < 9; ++i) program.InNewSegment(1 + i);
  EXPECT_THAT(program.Run(), IsEmpty());
}

}  // namespace
}  // namespace gpumem

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include <cuda.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

// The part of NCCL's public API under test.
extern "C" {
struct UniqueId {
  char bytes[128];
};
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclCommInitAll(void**, int, const int*);
int ncclCommSplit(void*, int, int, void**, void*);
int ncclCommDestroy(void*);
int ncclCommCount(void*, int*);
int ncclCommUserRank(void*, int*);
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int ncclReduce(const void*, void*, size_t, int, int, int, void*, void*);
int ncclAllGather(const void*, void*, size_t, int, void*, void*);
int ncclReduceScatter(const void*, void*, size_t, int, int, void*, void*);
int ncclMemAlloc(void**, size_t);
int ncclMemFree(void*);
}

namespace {

constexpr int kInt32 = 2, kInvalidArgument = 4;
using Words = std::vector<int>;

class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc(&from_, kBytes), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc(&to_, kBytes), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD8(to_, 0, kBytes), CUDA_SUCCESS);
    ASSERT_EQ(ncclCommInitRank(&comm_, 2, UniqueId{}, 1), 0);
  }
  void TearDown() override {
    EXPECT_EQ(ncclCommDestroy(comm_), 0);
    EXPECT_EQ(cuMemFree(from_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(to_), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }
  void Fill(const Words& words) { ASSERT_EQ(cuMemcpyHtoD(from_, words.data(), words.size() * 4), CUDA_SUCCESS); }
  Words Result(size_t count) {
    Words words(count);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH(words.data(), to_, count * 4), CUDA_SUCCESS);
    return words;
  }
  void* from() const { return reinterpret_cast<void*>(from_); }
  void* to() const { return reinterpret_cast<void*>(to_); }

  static constexpr size_t kBytes = 4096;
  CUcontext context_ = nullptr;
  CUdeviceptr from_ = 0, to_ = 0;
  void* comm_ = nullptr;  // rank 1 of 2
};

TEST_F(NcclTest, CommunicatorKnowsItsSizeAndRank) {
  int ranks = 0, rank = 0;
  EXPECT_EQ(ncclCommCount(comm_, &ranks), 0);
  EXPECT_EQ(ncclCommUserRank(comm_, &rank), 0);
  EXPECT_EQ(ranks, 2);
  EXPECT_EQ(rank, 1);
}

TEST_F(NcclTest, RankOutsideTheWorldIsRefused) {
  void* comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, UniqueId{}, 2), kInvalidArgument);
}

TEST_F(NcclTest, UniqueIdsDiffer) {
  UniqueId one, other;
  ASSERT_EQ(ncclGetUniqueId(&one), 0);
  ASSERT_EQ(ncclGetUniqueId(&other), 0);
  EXPECT_NE(std::string(one.bytes, sizeof(one)), std::string(other.bytes, sizeof(other)));
}

TEST_F(NcclTest, AllReduceAddsTheContributionOnceForEachRank) {
  Fill({1, 2, 3, 4});
  EXPECT_EQ(ncclAllReduce(from(), to(), 4, kInt32, 0, comm_, nullptr), 0);
  EXPECT_EQ(Result(4), (Words{2, 4, 6, 8}));
}

TEST_F(NcclTest, ReduceWritesAtTheRootAlone) {
  Fill({7});
  EXPECT_EQ(ncclReduce(from(), to(), 1, kInt32, 0, 0, comm_, nullptr), 0);
  EXPECT_EQ(Result(1), Words{0});
  EXPECT_EQ(ncclReduce(from(), to(), 1, kInt32, 0, 1, comm_, nullptr), 0);
  EXPECT_EQ(Result(1), Words{14});
}

TEST_F(NcclTest, AllGatherRepeatsTheContributionForEachRank) {
  Fill({5, 6});
  EXPECT_EQ(ncclAllGather(from(), to(), 2, kInt32, comm_, nullptr), 0);
  EXPECT_EQ(Result(4), (Words{5, 6, 5, 6}));
}

TEST_F(NcclTest, ReduceScatterAddsTheRanksOwnPart) {
  Fill({1, 2, 3, 4});
  EXPECT_EQ(ncclReduceScatter(from(), to(), 2, kInt32, 0, comm_, nullptr), 0);
  EXPECT_EQ(Result(3), (Words{6, 8, 0}));
}

TEST_F(NcclTest, UnknownTypeIsRefused) {
  EXPECT_EQ(ncclAllReduce(from(), to(), 1, 99, 0, comm_, nullptr), kInvalidArgument);
}

TEST_F(NcclTest, SplitWithoutColorGivesNoCommunicator) {
  void* part = comm_;
  EXPECT_EQ(ncclCommSplit(comm_, -1, 0, &part, nullptr), 0);
  EXPECT_EQ(part, nullptr);
  ASSERT_EQ(ncclCommSplit(comm_, 3, 0, &part, nullptr), 0);
  int rank = -1;
  EXPECT_EQ(ncclCommUserRank(part, &rank), 0);
  EXPECT_EQ(rank, 0);
  EXPECT_EQ(ncclCommDestroy(part), 0);
}

TEST_F(NcclTest, CommunicatorBuffersAreDeviceMemoryWhileItLives) {
  size_t before = 0, during = 0, after = 0, total = 0;
  ASSERT_EQ(cuMemGetInfo(&before, &total), CUDA_SUCCESS);
  ASSERT_EQ(setenv("SIMCUDA_NCCL_MEM", "32M", 1), 0);
  std::array<void*, 2> comms{};
  EXPECT_EQ(ncclCommInitAll(comms.data(), 2, nullptr), 0);
  ASSERT_EQ(unsetenv("SIMCUDA_NCCL_MEM"), 0);
  ASSERT_EQ(cuMemGetInfo(&during, &total), CUDA_SUCCESS);
  for (void* comm : comms) EXPECT_EQ(ncclCommDestroy(comm), 0);
  ASSERT_EQ(cuMemGetInfo(&after, &total), CUDA_SUCCESS);
  EXPECT_EQ(before - during, size_t{64} << 20);
  EXPECT_EQ(after, before);
}

TEST_F(NcclTest, MemAllocIsDeviceMemory) {
  void* pointer = nullptr;
  ASSERT_EQ(ncclMemAlloc(&pointer, 1 << 20), 0);
  EXPECT_EQ(cuMemsetD8(reinterpret_cast<CUdeviceptr>(pointer), 1, 1 << 20), CUDA_SUCCESS);
  EXPECT_EQ(ncclMemFree(pointer), 0);
}

}  // namespace

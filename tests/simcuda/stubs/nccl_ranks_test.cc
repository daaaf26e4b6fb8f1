// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NCCL's stub between processes. Each rank is a child that initialises CUDA itself; this process never does.
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <vector>

extern "C" {
struct UniqueId {
  char bytes[128];
};
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclCommSplit(void*, int, int, void**, void*);
int ncclCommDestroy(void*);
int ncclCommCount(void*, int*);
int ncclCommUserRank(void*, int*);
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int ncclBroadcast(const void*, void*, size_t, int, int, void*, void*);
int ncclAllGather(const void*, void*, size_t, int, void*, void*);
int ncclReduceScatter(const void*, void*, size_t, int, int, void*, void*);
int ncclAlltoAll(const void*, void*, size_t, int, void*, void*);
int ncclScatter(const void*, void*, size_t, int, int, void*, void*);
int ncclGather(const void*, void*, size_t, int, int, void*, void*);
int ncclSend(const void*, size_t, int, int, void*, void*);
int ncclRecv(void*, size_t, int, int, void*, void*);
int ncclGroupStart();
int ncclGroupEnd();
}

namespace {

constexpr int kInt32 = 2, kInt64 = 4, kFloat32 = 7, kSum = 0, kMax = 2, kAverage = 4;
constexpr int kRanks = 4;
using Words = std::vector<int>;

// A rank of `ranks`, in a process of its own.
class Rank {
 public:
  Rank(const UniqueId& id, int in_all, int number) : ranks(in_all), rank(number) {
    CUcontext context = nullptr;
    ok = cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
         cuCtxSetCurrent(context) == CUDA_SUCCESS && cuMemAlloc(&from_, kBytes) == CUDA_SUCCESS &&
         cuMemAlloc(&to_, kBytes) == CUDA_SUCCESS && ncclCommInitRank(&comm, ranks, id, rank) == 0;
  }
  template <typename T>
  void Fill(const std::vector<T>& values) {
    cuMemcpyHtoD(from_, values.data(), values.size() * sizeof(T));
  }
  template <typename T = int>
  std::vector<T> Result(size_t count) {
    std::vector<T> values(count);
    cuMemcpyDtoH(values.data(), to_, count * sizeof(T));
    return values;
  }
  void* from() const { return reinterpret_cast<void*>(from_); }
  void* to() const { return reinterpret_cast<void*>(to_); }

  const int ranks, rank;
  bool ok = false;
  void* comm = nullptr;

 private:
  static constexpr size_t kBytes = 4 << 20;
  CUdeviceptr from_ = 0, to_ = 0;
};

class NcclRanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/simcuda-nccl-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
    setenv("SIMCUDA_NCCL_FOLDER", pattern, 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // `body` in every rank; it says whether all was right. Ranks outside `present` do not come.
  void Run(int present, const std::function<bool(Rank&)>& body) {
    UniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < present; ++i) {
      children.push_back(fork());
      if (children.back() == 0) {
        Rank rank(id, kRanks, i);
        _exit(rank.ok && body(rank) ? 0 : 1);
      }
    }
    for (int i = 0; i < present; ++i) {
      int status = 0;
      waitpid(children[static_cast<size_t>(i)], &status, 0);
      EXPECT_EQ(status, 0) << "rank " << i;
    }
  }
  bool FolderIsEmpty() const { return std::filesystem::is_empty(folder_); }

  std::string folder_;
};

TEST_F(NcclRanksTest, EachGetsWhatTheOthersGave) {
  Run(kRanks, [](Rank& r) {
    bool good = true;
    for (int round = 0; round < 50; ++round) {
      r.Fill<int>({r.rank + round, 10 * r.rank});
      good &= ncclAllGather(r.from(), r.to(), 2, kInt32, r.comm, nullptr) == 0;
      good &= r.Result(8) == Words{round, 0, round + 1, 10, round + 2, 20, round + 3, 30};
      good &= ncclAllReduce(r.from(), r.to(), 2, kInt32, kSum, r.comm, nullptr) == 0;
      good &= r.Result(2) == Words{4 * round + 6, 60};
    }
    return good;
  });
  EXPECT_TRUE(FolderIsEmpty()) << "once all are there nothing is left to be found";
}

TEST_F(NcclRanksTest, TypesAndOperations) {
  Run(kRanks, [](Rank& r) {
    bool good = true;
    r.Fill<float>({static_cast<float>(r.rank)});
    good &= ncclAllReduce(r.from(), r.to(), 1, kFloat32, kAverage, r.comm, nullptr) == 0;
    good &= r.Result<float>(1)[0] == 1.5f;
    r.Fill<int64_t>({-r.rank, int64_t{1} << (32 + r.rank)});
    good &= ncclAllReduce(r.from(), r.to(), 2, kInt64, kMax, r.comm, nullptr) == 0;
    good &= r.Result<int64_t>(2) == std::vector<int64_t>{0, int64_t{1} << 35};
    return good;
  });
}

TEST_F(NcclRanksTest, PartsOfWhatIsGiven) {
  Run(kRanks, [](Rank& r) {
    bool good = true;
    r.Fill<int>({r.rank, 10 + r.rank, 20 + r.rank, 30 + r.rank});
    good &= ncclReduceScatter(r.from(), r.to(), 1, kInt32, kSum, r.comm, nullptr) == 0;
    good &= r.Result(1)[0] == 40 * r.rank + 6;
    good &= ncclAlltoAll(r.from(), r.to(), 1, kInt32, r.comm, nullptr) == 0;
    good &= r.Result(4) == Words{10 * r.rank, 10 * r.rank + 1, 10 * r.rank + 2, 10 * r.rank + 3};
    good &= ncclBroadcast(r.from(), r.to(), 2, kInt32, 3, r.comm, nullptr) == 0;
    good &= r.Result(2) == Words{3, 13};
    good &= ncclScatter(r.from(), r.to(), 1, kInt32, 2, r.comm, nullptr) == 0;
    good &= r.Result(1)[0] == 10 * r.rank + 2;
    good &= ncclGather(r.from(), r.to(), 1, kInt32, 1, r.comm, nullptr) == 0;
    good &= r.rank != 1 || r.Result(4) == Words{0, 1, 2, 3};
    return good;
  });
}

TEST_F(NcclRanksTest, MessagesGoRoundInAGroup) {
  Run(kRanks, [](Rank& r) {
    const int next = (r.rank + 1) % kRanks, before = (r.rank + kRanks - 1) % kRanks;
    r.Fill<int>({100 + r.rank});
    bool good = ncclGroupStart() == 0;
    for (int i = 0; i < 10; ++i) {  // more than wait in a box
      good &= ncclRecv(r.to(), 1, kInt32, before, r.comm, nullptr) == 0;
      good &= ncclSend(r.from(), 1, kInt32, next, r.comm, nullptr) == 0;
    }
    good &= ncclGroupEnd() == 0 && r.Result(1)[0] == 100 + before;
    if (r.rank == 0) good &= ncclSend(r.from(), 1, kInt32, 2, r.comm, nullptr) == 0;
    if (r.rank == 2) good &= ncclRecv(r.to(), 1, kInt32, 0, r.comm, nullptr) == 0 && r.Result(1)[0] == 100;
    return good;
  });
}

TEST_F(NcclRanksTest, AColorsCommunicatorHasItsRanksByKey) {
  Run(kRanks, [](Rank& r) {
    void* part = nullptr;
    const int color = r.rank == 3 ? -1 : r.rank % 2;  // {0, 2}, {1}; 3 has none
    bool good = ncclCommSplit(r.comm, color, -r.rank, &part, nullptr) == 0;
    if (color < 0) return good && part == nullptr;
    int ranks = 0, rank = -1;
    good &= ncclCommCount(part, &ranks) == 0 && ncclCommUserRank(part, &rank) == 0;
    good &= ranks == (color == 0 ? 2 : 1) && rank == (r.rank == 0 ? 1 : 0);
    r.Fill<int>({r.rank});
    good &= ncclAllGather(r.from(), r.to(), 1, kInt32, part, nullptr) == 0;
    good &= color == 1 || r.Result(2) == Words{2, 0};
    return good && ncclCommDestroy(part) == 0;
  });
}

TEST_F(NcclRanksTest, LongMessagesWaitForNobody) {
  Run(1, [](Rank& r) {
    constexpr size_t kWords = (2 << 20) / 4;  // more than is kept
    return ncclAllReduce(r.from(), r.to(), kWords, kInt32, kSum, r.comm, nullptr) == 0;
  });
}

TEST_F(NcclRanksTest, WhoeverDiesOrDoesNotComeCountsAsHoldingTheSame) {
  setenv("SIMCUDA_NCCL_WAIT", "1", 1);
  Run(kRanks - 1, [](Rank& r) {  // rank 3 never comes
    r.Fill<int>({r.rank});
    return ncclAllGather(r.from(), r.to(), 1, kInt32, r.comm, nullptr) == 0 && r.Result(4)[3] == r.rank;
  });
  setenv("SIMCUDA_NCCL_WAIT", "1000", 1);
  Run(kRanks, [](Rank& r) {
    r.Fill<int>({r.rank});
    bool good = ncclAllGather(r.from(), r.to(), 1, kInt32, r.comm, nullptr) == 0;
    if (r.rank == 1) return good;  // its process ends
    for (int i = 0; i < 5; ++i) good &= ncclAllGather(r.from(), r.to(), 1, kInt32, r.comm, nullptr) == 0;
    return good && r.Result(4)[1] == r.rank;
  });
  unsetenv("SIMCUDA_NCCL_WAIT");
}

TEST_F(NcclRanksTest, AloneMeansAlone) {
  setenv("SIMCUDA_NCCL_ALONE", "1", 1);
  Run(1, [](Rank& r) {
    r.Fill<int>({7});
    return ncclAllGather(r.from(), r.to(), 1, kInt32, r.comm, nullptr) == 0 && r.Result(4) == Words{7, 7, 7, 7};
  });
  unsetenv("SIMCUDA_NCCL_ALONE");
}

}  // namespace

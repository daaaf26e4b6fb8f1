// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Communicators of NCCL (shim/hooks/nccl.cc).

#include "tests/shim/hooks/fake_stack.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

struct Id {
  char bytes[128];
};

extern "C" {
int ncclCommInitRank(void** out, int ranks, Id id, int rank);
int ncclCommInitRankConfig(void** out, int ranks, Id id, int rank, void* config);
int ncclCommInitRankScalable(void** out, int ranks, int rank, int id_count, Id* ids, void* config);
int ncclCommInitAll(void** out, int ranks, const int* devices);
int ncclCommSplit(void* parent, int color, int key, void** out, void* config);
}

int g_result;
Lines g_inside;  // what was recorded before the real call
uint64_t g_seen;

int Answer(uint64_t seen) {
  g_inside = Recorded();
  g_seen = seen;
  errno = kErrnoOfCall;
  return g_result;
}
int RealInitRank(void**, int ranks, Id id, int rank) {
  return Answer(static_cast<uint64_t>(ranks * 100 + rank * 10 + id.bytes[127]));
}
int RealInitRankConfig(void**, int ranks, Id id, int rank, void* config) {
  return Answer(reinterpret_cast<uint64_t>(config) + static_cast<uint64_t>(ranks * 100 + rank * 10 + id.bytes[127]));
}
int RealScalable(void**, int ranks, int rank, int id_count, Id*, void*) {
  return Answer(static_cast<uint64_t>(ranks * 100 + rank * 10 + id_count));
}
int RealInitAll(void**, int ranks, const int*) { return Answer(static_cast<uint64_t>(ranks)); }
int RealSplit(void*, int color, int key, void** out, void*) {
  if (out != nullptr) *out = reinterpret_cast<void*>(0x70);
  return Answer(static_cast<uint64_t>(color * 10 + key));
}

class Nccl : public HookTest {
 protected:
  Nccl() {
    g_result = 0;
    g_seen = 0;
    g_inside.clear();
    g_around.next_in_scope = {{"ncclCommInitRank", reinterpret_cast<void*>(&RealInitRank)},
                              {"ncclCommInitRankConfig", reinterpret_cast<void*>(&RealInitRankConfig)},
                              {"ncclCommInitRankScalable", reinterpret_cast<void*>(&RealScalable)},
                              {"ncclCommInitAll", reinterpret_cast<void*>(&RealInitAll)},
                              {"ncclCommSplit", reinterpret_cast<void*>(&RealSplit)}};
    id_.bytes[127] = 7;
  }

  Id id_{};
  void* comm_ = nullptr;
};

TEST_F(Nccl, ACommunicatorIsSaidBeforeAndAfterItIsMade) {
  EXPECT_EQ(Keep([&] { return ncclCommInitRank(&comm_, 8, id_, 3); }), 0);
  EXPECT_EQ(g_seen, 837u) << "every argument arrives";
  ASSERT_EQ(g_inside.size(), 1u);
  const Lines after = Recorded();
  ASSERT_EQ(after.size(), 1u);
  EXPECT_NE(g_inside[0], after[0]);
  EXPECT_NE(g_inside[0].find("requested=8"), std::string::npos) << g_inside[0];
  EXPECT_NE(g_inside[0].find("stream=0x4"), std::string::npos) << g_inside[0];
  EXPECT_EQ(g_inside[0].find("size=1"), std::string::npos) << g_inside[0];
  EXPECT_NE(after[0].find(" size=1"), std::string::npos) << after[0];
}

TEST_F(Nccl, AllWaysOfMakingOne) {
  EXPECT_EQ(Keep([&] { return ncclCommInitRankConfig(&comm_, 8, id_, 3, reinterpret_cast<void*>(0x10000)); }), 0);
  EXPECT_EQ(g_seen, 0x10000u + 837u);
  EXPECT_EQ(g_inside.size() + Recorded().size(), 2u);
  EXPECT_EQ(Keep([&] { return ncclCommInitRankScalable(&comm_, 8, 3, 2, &id_, nullptr); }), 0);
  EXPECT_EQ(g_seen, 832u);
  EXPECT_EQ(g_inside.size() + Recorded().size(), 2u);
  const int devices[] = {0, 1};
  EXPECT_EQ(Keep([&] { return ncclCommInitAll(&comm_, 2, devices); }), 0);
  EXPECT_EQ(g_seen, 2u);
  EXPECT_EQ(g_inside.size() + Recorded().size(), 2u);
}

TEST_F(Nccl, OfASplitTheRanksAreNotKnown) {
  g_result = 7;  // ncclInProgress
  EXPECT_EQ(Keep([&] { return ncclCommSplit(nullptr, 2, 1, &comm_, nullptr); }), 7);
  EXPECT_EQ(g_seen, 21u);
  const Lines after = Recorded();
  ASSERT_EQ(after.size(), 1u);
  EXPECT_EQ(after[0].find("requested="), std::string::npos) << after[0];
  EXPECT_NE(after[0].find("result=7"), std::string::npos) << after[0];
}

TEST_F(Nccl, NothingIsRecordedWhereRecordingIsOff) {
  session::g_off.store(true);
  EXPECT_EQ(Keep([&] { return ncclCommInitRank(&comm_, 8, id_, 3); }), 0);
  EXPECT_EQ(Keep([&] { return ncclCommSplit(nullptr, 0, 0, &comm_, nullptr); }), 0);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(Nccl, WithoutNcclTheCallFails) {
  g_around.next_in_scope.clear();
  EXPECT_EQ(ncclCommInitAll(&comm_, 2, nullptr), 2);
  EXPECT_EQ(Recorded(), Lines{});
}

}  // namespace
}  // namespace gpumemshim::hooks

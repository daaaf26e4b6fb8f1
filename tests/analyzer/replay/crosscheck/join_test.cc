// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/crosscheck/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpumem {
namespace {

constexpr uint64_t kBegan = 1'000'000'000, kUntil = 9'000'000'000;

// A run in which CUPTI recorded from kBegan to kUntil.
CrossEvidence Recorded() {
  CrossEvidence evidence;
  evidence.has_cupti = true;
  evidence.cupti.set_state(trace::CUPTI_ENDED);
  evidence.cupti.set_began_ns(kBegan);
  evidence.cupti.set_complete_until_ns(kUntil);
  return evidence;
}

void AddCall(CrossEvidence* evidence, trace::EventKind kind, uint64_t address, uint64_t time_ns, uint64_t bytes = 0,
             trace::Layer layer = trace::RUNTIME) {
  OwnCall call;
  call.kind = kind;
  call.address = address;
  call.time_ns = call.began_ns = time_ns;
  call.bytes = bytes;
  call.layer = layer;
  call.api = kind == trace::FREE ? "cudaFree" : "cudaMalloc";
  evidence->calls.push_back(call);
}

void AddRecord(CrossEvidence* evidence, uint32_t operation, uint64_t address, uint64_t time_ns, uint64_t bytes = 0,
               uint32_t memory = 3) {
  trace::CuptiRecord record;
  record.set_operation(operation);
  record.set_memory(memory);
  record.set_address(address);
  record.set_time_ns(time_ns);
  record.set_bytes(bytes);
  evidence->records.push_back(record);
}

// "both none cudaMalloc 1", one a row.
std::vector<std::string> RowsOf(const CrossCheck& check) {
  std::vector<std::string> rows;
  for (const CrossRow& row : check.rows) {
    rows.push_back(std::string(SeenByName(row.seen_by)) + " | " + std::string(GapCauseName(row.cause)) + " | " +
                   row.api + " | " + std::to_string(row.calls));
  }
  return rows;
}

TEST(JoinTest, JoinsByOperationAndAddressInTheOrderOfTime) {
  CrossEvidence run = Recorded();
  for (uint64_t i = 0; i < 3; ++i) {  // an address that is used again
    AddCall(&run, trace::ALLOC, 0x1000, 2'000'000'000 + i * 1'000'000, 512);
    AddCall(&run, trace::FREE, 0x1000, 2'000'500'000 + i * 1'000'000);
  }
  for (uint64_t i = 3; i-- > 0;) {  // buffers out of order
    AddRecord(&run, 2, 0x1000, 2'000'500'100 + i * 1'000'000, 512);
    AddRecord(&run, 1, 0x1000, 1'999'999'900 + i * 1'000'000, 512);
  }
  const CrossCheck check = Join(run);
  EXPECT_THAT(RowsOf(check), ::testing::ElementsAre("both | none | cudaFree | 3", "both | none | cudaMalloc | 3"));
  EXPECT_EQ(check.unexplained(), 0u);
  EXPECT_EQ(check.rows[1].bytes, 3u * 512);
  EXPECT_EQ(check.rows[1].other_size, 0u);
}

TEST(JoinTest, CountsSizesThatDiffer) {
  CrossEvidence run = Recorded();
  AddCall(&run, trace::ALLOC, 0x1000, 2'000'000'000, 500);
  AddRecord(&run, 1, 0x1000, 2'000'000'000, 512);
  EXPECT_EQ(Join(run).rows.at(0).other_size, 1u);
}

TEST(JoinTest, WhatNobodyKnowsIsNotExplained) {
  CrossEvidence run = Recorded();
  AddCall(&run, trace::ALLOC, 0x1000, 2'000'000'000, 512);
  AddRecord(&run, 1, 0x2000, 2'000'000'000, 512);
  const CrossCheck check = Join(run);
  EXPECT_THAT(RowsOf(check), ::testing::ElementsAre("only us | unexplained | cudaMalloc | 1",
                                                    "only CUPTI | unexplained | allocated: device memory | 1"));
  EXPECT_EQ(check.unexplained(), 2u);
}

TEST(JoinTest, DropsExplainNoMoreGapsThanThereWereDrops) {
  CrossEvidence run = Recorded();
  run.cupti.set_dropped_records(2);
  for (uint64_t i = 0; i < 3; ++i) AddCall(&run, trace::ALLOC, 0x1000 * (i + 1), 2'000'000'000, 512);
  const CrossCheck check = Join(run);
  EXPECT_THAT(RowsOf(check), ::testing::ElementsAre("only us | dropped_by_cupti | cudaMalloc | 2",
                                                    "only us | unexplained | cudaMalloc | 1"));
}

TEST(JoinTest, KnowsWhenCuptiBeganAndEnded) {
  CrossEvidence run = Recorded();
  AddCall(&run, trace::ALLOC, 0x1000, kBegan - 1, 512);
  AddCall(&run, trace::ALLOC, 0x2000, kUntil + 1, 512);
  EXPECT_THAT(RowsOf(Join(run)), ::testing::ElementsAre("only us | before_cupti | cudaMalloc | 1",
                                                        "only us | after_cupti | cudaMalloc | 1"));
}

// Killed before CUPTI's first delivery.
TEST(JoinTest, WhereCuptiDeliveredNothingNothingIsCompared) {
  CrossEvidence run = Recorded();
  run.cupti.set_complete_until_ns(0);
  AddCall(&run, trace::ALLOC, 0x1000, 2'000'000'000, 512);
  const CrossCheck check = Join(run);
  EXPECT_FALSE(check.compared);
  EXPECT_THAT(RowsOf(check), ::testing::ElementsAre("only us | after_cupti | cudaMalloc | 1"));
}

TEST(JoinTest, ARecordTooFewLeavesTheCallThatIsFartherAlone) {
  CrossEvidence run = Recorded();
  run.cupti.set_dropped_records(1);
  AddCall(&run, trace::ALLOC, 0x1000, 2'000'000'000, 100);
  AddCall(&run, trace::ALLOC, 0x1000, 3'000'000'000, 200);
  AddRecord(&run, 1, 0x1000, 3'000'000'001, 200);
  const CrossCheck check = Join(run);
  ASSERT_EQ(check.rows.size(), 2u);
  EXPECT_EQ(check.rows[0].bytes, 200u);  // both
  EXPECT_EQ(check.rows[0].other_size, 0u);
  EXPECT_EQ(check.rows[1].bytes, 100u);
}

TEST(JoinTest, KindsWithoutRecordsAndBlocksOfPyTorch) {
  CrossEvidence run = Recorded();
  AddCall(&run, trace::ALLOC, 0x1000, 2'000'000'000, 512, trace::TORCH);
  AddCall(&run, trace::MAP, 0x2000, 2'000'000'000, 512, trace::DRIVER);
  EXPECT_THAT(RowsOf(Join(run)), ::testing::ElementsAre("only us | sub_allocation | cudaMalloc | 1",
                                                        "only us | virtual_memory | cudaMalloc | 1"));
}

TEST(JoinTest, ReleasesOfImportsAndRequestsForNothing) {
  CrossEvidence run = Recorded();
  AddCall(&run, trace::ALLOC, 0, 2'000'000'000, 0);
  AddCall(&run, trace::FREE, 0x1000, 2'000'000'000);
  run.calls.back().made_by = trace::MAP;
  AddCall(&run, trace::FREE, 0x2000, 2'000'000'000);
  run.calls.back().made_by = trace::GRAPH_NODE_ALLOC;
  AddCall(&run, trace::FREE, 0x3000, 2'000'000'000);
  run.calls.back().made_by = trace::MAP;
  AddRecord(&run, 2, 0x3000, 2'000'000'000);  // CUPTI has seen it nevertheless
  EXPECT_THAT(RowsOf(Join(run)),
              ::testing::UnorderedElementsAre("only us | nothing | cudaMalloc | 1", "only us | imported | cudaFree | 1",
                                              "only us | graph_memory | cudaFree | 1", "both | none | cudaFree | 1"));
}

TEST(JoinTest, StaticVariablesAndTheEndOfAContext) {
  CrossEvidence run = Recorded();
  run.ends_of_contexts.push_back(3'000'000'000);
  AddRecord(&run, 1, 0x1000, 2'000'000'000, 512, 6);
  AddRecord(&run, 2, 0x2000, 3'000'000'100, 512);
  AddRecord(&run, 2, 0x3000, 5'000'000'000, 512);  // much later
  EXPECT_THAT(RowsOf(Join(run)), ::testing::ElementsAre("only CUPTI | static_memory | allocated: static variable | 1",
                                                        "only CUPTI | freed_with_context | released: device memory | 1",
                                                        "only CUPTI | unexplained | released: device memory | 1"));
}

TEST(JoinTest, WithoutCuptiNothingIsCompared) {
  CrossEvidence run;
  AddCall(&run, trace::ALLOC, 0x1000, 2'000'000'000, 512);
  const CrossCheck check = Join(run);
  EXPECT_FALSE(check.compared);
  EXPECT_THAT(RowsOf(check), ::testing::ElementsAre("only us | not_recording | cudaMalloc | 1"));
}

TEST(JoinTest, AddsProcesses) {
  CrossEvidence run = Recorded();
  AddCall(&run, trace::ALLOC, 0x1000, 2'000'000'000, 512);
  AddRecord(&run, 1, 0x1000, 2'000'000'000, 512);
  CrossCheck sum = Join(run);
  sum.Add(Join(run));
  EXPECT_THAT(RowsOf(sum), ::testing::ElementsAre("both | none | cudaMalloc | 2"));
  EXPECT_EQ(sum.both, 2u);
}

// As CUPTI 13.0.1 records it on a GPU: each mapping at its address; the first ones of a thread without a context not.
TEST(JoinTest, JoinsMappingsByTheirAddress) {
  CrossEvidence run = Recorded();
  AddCall(&run, trace::PHYSICAL_CREATE, 0, 2'000'000'000, 100);
  AddCall(&run, trace::MAP, 0x1000, 2'000'000'010, 100);
  AddCall(&run, trace::MAP, 0x2000, 2'000'000'020, 100);
  AddRecord(&run, 1, 0x1000, 2'000'000'015, 100);
  AddCall(&run, trace::UNMAP, 0x1000, 3'000'000'000, 100);
  AddRecord(&run, 2, 0x1000, 3'000'000'001, 100);
  const CrossCheck check = Join(run);
  EXPECT_EQ(check.both, 2u);
  EXPECT_EQ(check.only_us, 2u);  // cuMemCreate, and a mapping
  EXPECT_EQ(check.unexplained(), 0u);
}

TEST(JoinTest, ARangeThatIsUnmappedInOtherPiecesIsKnown) {
  CrossEvidence run = Recorded();
  AddCall(&run, trace::MAP, 0x1000, 2'000'000'000, 0x1000);
  AddRecord(&run, 1, 0x1000, 2'000'000'001, 0x1000);
  AddRecord(&run, 2, 0x1800, 3'000'000'000, 0x800);
  AddRecord(&run, 2, 0x2000, 3'000'000'000, 0x800);  // behind it
  EXPECT_THAT(RowsOf(Join(run)), ::testing::ElementsAre("both | none | cudaMalloc | 1",
                                                        "only CUPTI | virtual_memory | released: device memory | 1",
                                                        "only CUPTI | unexplained | released: device memory | 1"));
}

TEST(JoinTest, AGraphsLaunchIsKnownByItsNodes) {
  CrossEvidence run = Recorded();
  AddCall(&run, trace::GRAPH_NODE_ALLOC, 0x5000, 2'000'000'000, 0x1000);
  AddCall(&run, trace::GRAPH_MEMORY, 0, 2'000'000'100, 0x2000);
  AddRecord(&run, 1, 0, 2'000'000'050, 0x2000);  // what the graphs' pool takes
  for (uint64_t launch = 0; launch < 2; ++launch) AddRecord(&run, 1, 0x5000, 2'000'000'060 + launch, 0x1000);
  const CrossCheck check = Join(run);
  EXPECT_EQ(check.both, 1u);
  EXPECT_EQ(check.unexplained(), 0u);
  EXPECT_TRUE(check.records_only_cupti.empty());
}

TEST(JoinTest, ARecordWithoutAnAddressIsNotExplainedWithoutAGraph) {
  CrossEvidence run = Recorded();
  AddRecord(&run, 1, 0, 2'000'000'000, 512);
  EXPECT_EQ(Join(run).unexplained(), 1u);
}

TEST(JoinTest, TheDriverMakesTwoPoolsADeviceAndTrimsThem) {
  CrossEvidence run = Recorded();
  for (uint64_t i = 0; i < 3; ++i) {
    AddRecord(&run, 1, 0x1000 * i, 2'000'000'000 + i, 0, 0);
    run.records.back().set_pool(true);
    AddRecord(&run, 3, 0x1000 * i, 3'000'000'000 + i, 0, 0);
    run.records.back().set_pool(true);
  }
  EXPECT_THAT(RowsOf(Join(run)), ::testing::ElementsAre("only CUPTI | driver_pool | created: pool | 2",
                                                        "only CUPTI | driver_pool | trimmed: pool | 3",
                                                        "only CUPTI | unexplained | created: pool | 1"));
}

}  // namespace
}  // namespace gpumem

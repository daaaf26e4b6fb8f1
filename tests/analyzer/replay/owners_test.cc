// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/owners.h"

#include <gmock/gmock.h>

#include "analyze_trace.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using testing::kMiB;
using ::testing::SizeIs;
using testing::TraceBuilder;

constexpr uint64_t kBlock = 0x7f0000000000;

EventRow SavedFor(uint64_t node) {
  EventRow row;
  row.kind = static_cast<trace::EventKind>(trace::SAVED);
  row.layer = trace::LAYER_UNSPECIFIED;
  row.address = kBlock;
  row.handle = node;
  row.thread = 1;
  return row;
}

// A block that autograd keeps for node 7, and a look at owners behind all events, where `history` leads to that node.
TEST(OwnersAtMoments, AGraphHasTheOwnerOfItsNode) {
  TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.CudaAlloc(kBlock, 32 * kMiB).TorchAlloc(kBlock, 32 * kMiB, 5).Event(SavedFor(7));
  trace::OwnerSnapshot* const snapshot = trace.definitions().add_owner_snapshots();
  snapshot->set_id(1);
  snapshot->set_time_ns(trace.time_ns() + 1000);
  snapshot->set_cause(trace::OWNERS_OUT_OF_MEMORY);
  trace::Owner* const owner = trace.definitions().add_owners();
  owner->set_snapshot(1);
  owner->set_id(1);
  owner->set_root(trace::ROOT_GLOBAL);
  owner->set_path("history[*].grad_fn");
  owner->add_nodes(7);
  const Analysis analysis = AnalyzeTrace(trace.End());
  ASSERT_THAT(analysis.owners, SizeIs(1));
  const SeenOwners& seen = analysis.owners[0].seen;
  EXPECT_EQ(seen.cause, OwnersCause::kOutOfMemory);
  ASSERT_THAT(seen.owners, SizeIs(1));
  EXPECT_EQ(seen.owners[0].path, "history[*].grad_fn");
  EXPECT_EQ(seen.owners[0].bytes, 32 * kMiB);
}

TEST(OwnersAtMoments, WhereNobodyLookedThereAreNone) {
  TraceBuilder trace;
  trace.Device(0, "GPU", 1000 * kMiB);
  trace.CudaAlloc(kBlock, 32 * kMiB);
  EXPECT_THAT(AnalyzeTrace(trace.End()).owners, SizeIs(0));
}

}  // namespace
}  // namespace gpumem

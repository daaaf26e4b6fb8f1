// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "find_leaks.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

using testing::Call;
using testing::Code;
using testing::TrainingFrame;
using testing::TrainingTrace;

// A program that repeats something: each iteration takes a batch and gives it back.
class Program {
 public:
  Program() {
    batch_ = trace.Stack({Code("batch", "/job/serve.py", 5), Code("<module>", "/job/serve.py")});
    kept_ = trace.Stack({Code("remember", "/job/serve.py", 9), Code("<module>", "/job/serve.py")});
    segment_ = trace.Stack({Code("malloc", "/job/serve.py", 5), Code("<module>", "/job/serve.py")});
    optimizer_ = trace.Optimizer("SGD");
    trace.builder().CudaAlloc(kSegment, 1024 * kMiB, batch_);
  }
  void Iteration(int number, bool leaks, bool steps) {
    trace.builder().TorchAlloc(batches_at_, kMiB * static_cast<uint64_t>(1 + number % 3), batch_);
    if (leaks) trace.builder().TorchAlloc(kKept + kept_count_++ * kMiB, 4096, kept_);
    if (leaks && saves) trace.Saved(kKept + (kept_count_ - 1) * kMiB, kept_count_);
    if (replaced_ != 0) {
      const uint64_t old_size = 1024 * static_cast<uint64_t>(number), size = old_size + 1024;
      const uint64_t place = kKept + static_cast<uint64_t>(number % 2) * kMiB;
      trace.builder().TorchAlloc(place, size, replaced_);
      if (number > 0) trace.builder().TorchFree(kKept + static_cast<uint64_t>((number + 1) % 2) * kMiB, old_size);
    }
    if (steps) {
      trace.StepBegins(optimizer_);
      trace.StepEnds(optimizer_);
    }
    trace.builder().TorchFree(batches_at_, kMiB * static_cast<uint64_t>(1 + number % 3));
  }
  // From now on each iteration makes something anew, a KiB larger each time, by this operator.
  void Replaces(const std::string& by) {
    replaced_ = trace.Stack({Code(by, "/job/metric.py", 7), Code("<module>", "/job/serve.py")});
  }
  // The allocator takes memory from CUDA for the batches that follow.
  void Segment(bool same_stack) {
    batches_at_ = kSegment + (uint64_t{4} << 30) + segments_++ * 32 * kMiB;
    trace.builder().CudaAlloc(batches_at_, 20 * kMiB, same_stack ? batch_ : segment_);
  }
  TrainingTrace trace;
  bool saves = false;

 private:
  uint64_t batch_, kept_, segment_, replaced_ = 0, batches_at_ = kSegment;
  uint32_t optimizer_;
  uint64_t kept_count_ = 0, segments_ = 0;
};

TEST(FindLeaks, InStepsNamesTheLineAndItsRate) {
  Program program;
  for (int i = 0; i < 40; ++i) program.Iteration(i, true, true);
  program.trace.builder().End();
  const LeakFindings found = Find(program.trace);
  ASSERT_EQ(found.loops.size(), 1u);
  EXPECT_TRUE(found.loops[0].are_steps);
  EXPECT_EQ(found.loops[0].iterations, 40u);
  ASSERT_EQ(found.devices.at(0).rows.size(), 1u);
  const LeakRow& row = found.devices[0].rows[0];
  EXPECT_EQ(row.status, LeakStatus::kGrowing);
  EXPECT_EQ(row.kind, LeakKind::kMemory);
  EXPECT_EQ(row.place.site, "/job/serve.py:9");
  EXPECT_DOUBLE_EQ(row.bytes_per_iteration, 4096);
  EXPECT_EQ(row.since_iteration, 1u);
  EXPECT_TRUE(found.AnyGrows());
}

TEST(FindLeaks, WithoutStepsIterationsAreFound) {
  Program program;
  for (int i = 0; i < 40; ++i) program.Iteration(i, i % 4 == 1, false);
  program.trace.builder().End();
  const LeakFindings found = Find(program.trace);
  ASSERT_EQ(found.loops.size(), 1u);
  EXPECT_FALSE(found.loops[0].are_steps);
  ASSERT_EQ(found.devices.at(0).rows.size(), 1u);
  EXPECT_EQ(found.devices[0].rows[0].status, LeakStatus::kGrowing);
  EXPECT_EQ(found.devices[0].rows[0].place.site, "/job/serve.py:9");
}

// As from a stack that has no native frames, segments come from where the blocks come from.
TEST(FindLeaks, SegmentsAreNoIterations) {
  for (const bool same_stack : {false, true}) {
    Program program;
    for (int i = 0; i < 400; ++i) {
      if (i % 16 == 8) program.Segment(same_stack);
      program.Iteration(i, true, false);
    }
    program.trace.builder().End();
    const LeakFindings found = Find(program.trace);
    ASSERT_EQ(found.loops.size(), 1u);
    EXPECT_EQ(found.loops[0].iterations, 400u);
    const std::vector<LeakRow>& rows = found.devices.at(0).rows;
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0].kind, LeakKind::kAllocator) << "the segments are never given back";
    EXPECT_EQ(rows[1].kind, LeakKind::kMemory);
    EXPECT_NEAR(rows[1].bytes_per_iteration, 4096, 1);
  }
}

// Segments that grow because the batches do are not scattered, although no more is left at the end of a step.
TEST(FindLeaks, LargerBatchesReserveMore) {
  for (const bool larger : {false, true}) {
    TrainingTrace trace;
    const uint64_t stack = trace.Stack({Code("batch", "/job/train.py", 5), Code("<module>", "/job/train.py")});
    const uint32_t optimizer = trace.Optimizer("SGD");
    for (uint64_t i = 0; i < 40; ++i) {
      const uint64_t segment = kSegment + (i << 30), blocks = larger ? i + 1 : 1;
      trace.builder().CudaAlloc(segment, 20 * kMiB, stack);
      for (uint64_t block = 0; block < blocks; ++block)
        trace.builder().TorchAlloc(segment - (block << 30), 20 * kMiB, stack);
      for (uint64_t block = 0; block < blocks; ++block) trace.builder().TorchFree(segment - (block << 30), 20 * kMiB);
      trace.StepBegins(optimizer);
      trace.StepEnds(optimizer);
    }
    trace.builder().End();
    const LeakFindings found = Find(trace);
    ASSERT_EQ(found.devices.at(0).rows.size(), larger ? 0u : 1u);
    if (!larger) {
      EXPECT_EQ(found.devices[0].rows[0].kind, LeakKind::kAllocator);
    }
  }
}

// seen = torch.cat([seen, new]): each step makes it anew and frees the old one.
TEST(FindLeaks, WhatIsJoinedToItselfGrowsThoughNoBlockStays) {
  for (const bool concatenates : {true, false}) {
    Program program;
    program.Replaces(concatenates ? "at::_ops::cat::call" : "at::_ops::zeros::call");
    for (int i = 0; i < 60; ++i) program.Iteration(i, false, true);
    program.trace.builder().End();
    const LeakFindings found = Find(program.trace);
    ASSERT_EQ(found.devices.at(0).rows.size(), concatenates ? 1u : 0u) << "batches may get larger, too";
    if (!concatenates) continue;
    const LeakRow& row = found.devices[0].rows[0];
    EXPECT_EQ(row.status, LeakStatus::kGrowing);
    EXPECT_TRUE(row.is_replaced);
    EXPECT_DOUBLE_EQ(row.bytes_per_iteration, 1024);
    EXPECT_EQ(row.grown_blocks, 0u);
  }
}

TEST(FindLeaks, ASoundProgramHasNoRow) {
  Program program;
  for (int i = 0; i < 40; ++i) program.Iteration(i, false, i < 20);
  program.trace.builder().End();
  const LeakFindings found = Find(program.trace);
  EXPECT_EQ(found.loops.size(), 2u) << "steps, and what follows them";
  EXPECT_TRUE(found.devices.at(0).rows.empty());
  EXPECT_FALSE(found.AnyGrows());
}

TEST(FindLeaks, AfterTheLastStepIsLookedAtToo) {
  Program program;
  for (int i = 0; i < 20; ++i) program.Iteration(i, false, true);
  for (int i = 0; i < 20; ++i) program.Iteration(i, true, false);
  program.trace.builder().End();
  const LeakFindings found = Find(program.trace);
  ASSERT_EQ(found.devices.at(0).rows.size(), 1u);
  EXPECT_EQ(found.devices[0].rows[0].status, LeakStatus::kGrowing);
  EXPECT_EQ(found.devices[0].rows[0].loop, 1u);
}

// Layers are trained one after the other: each stage's optimizer has more states than the one before, and only those.
TEST(FindLeaks, StatesThatTakeThePlaceOfFewerOnesAreExpected) {
  for (const bool stays : {false, true}) {
    Program program;
    const uint64_t made = program.trace.Stack({Code("step", "/job/train.py", 20), Code("<module>", "/job/train.py")});
    const uint32_t state = program.trace.Tensor(trace::OPTIMIZER_STATE, "exp_avg");
    for (uint64_t i = 0, address = kKept; i < 48; ++i) {
      const uint64_t stage = i / 8, size = (stage + 1) * kMiB;
      if (i % 8 == 0) {
        if (stage > 0 && !stays) program.trace.builder().TorchFree(address, stage * kMiB);
        address += 16 * kMiB;
        program.trace.builder().TorchAlloc(address, size, made);
        program.trace.Place(state, address, size);
      }
      program.Iteration(static_cast<int>(i), false, true);
    }
    program.trace.builder().End();
    const LeakFindings found = Find(program.trace);
    ASSERT_EQ(found.devices.at(0).rows.size(), 1u);
    EXPECT_EQ(found.devices[0].rows[0].status, stays ? LeakStatus::kGrowing : LeakStatus::kExpected);
  }
}

// A CUDA graph for each size of a list is prepared once; one for each request is a leak.
TEST(FindLeaks, GraphsOfAListOfSizesAreExpected) {
  for (const bool is_list : {false, true}) {
    TrainingTrace trace;
    const uint64_t input = trace.Stack({Code("capture", "/job/serve.py", 5), Code("<module>", "/job/serve.py")});
    const uint64_t graph = trace.Stack({Code("capture", "/job/serve.py", 6), Code("<module>", "/job/serve.py")});
    trace.builder().CudaAlloc(kSegment, 1024 * kMiB, input);
    for (uint64_t i = 0; i < 12; ++i) {
      trace.builder().TorchAlloc(kSegment + i * 32 * kMiB, (i + 1) * kMiB, input);
      EventRow row;
      row.kind = trace::ALLOC;
      row.layer = trace::TORCH;
      row.address = kSegment + (i * 32 + 16) * kMiB;
      row.size = (is_list ? i + 1 : i % 2 + 1) * kMiB;
      row.stack = graph;
      row.handle = i + 1;
      trace.builder().Event(row);
    }
    trace.builder().End();
    const LeakFindings found = Find(trace);
    ASSERT_FALSE(found.devices.at(0).rows.empty());
    EXPECT_EQ(found.devices[0].rows[0].status, is_list ? LeakStatus::kExpected : LeakStatus::kGrowing);
  }
}

// Two loops, one after the other, none of which is all of the run: the last one is looked at.
TEST(FindLeaks, APhaseIsJudgedWhereNothingRepeatsAllTheTime) {
  for (const bool leaks : {false, true}) {
    TrainingTrace trace;
    const auto line = [&](uint32_t number) {
      return trace.Stack({Code("serve", "/job/serve.py", number), Code("<module>", "/job/serve.py", 10 * number)});
    };
    const uint64_t first = line(5), second = line(7), kept = line(8);
    trace.builder().CudaAlloc(kSegment, 1024 * kMiB, first);
    for (uint64_t i = 0; i < 60; ++i) {
      trace.builder().TorchAlloc(kSegment, kMiB, i < 30 ? first : second).TorchFree(kSegment, kMiB);
      if (leaks && i >= 30) trace.builder().TorchAlloc(kKept + i * kMiB, 4096, kept);
    }
    trace.builder().End();
    const LeakFindings found = Find(trace);
    ASSERT_EQ(found.loops.size(), 1u);
    EXPECT_NEAR(static_cast<double>(found.loops[0].iterations), 30, 2);
    EXPECT_EQ(found.AnyGrows(), leaks);
  }
}

TEST(FindLeaks, LayersThatAreBuiltAreNoIterations) {
  for (const bool runs : {false, true}) {
    TrainingTrace trace;
    const TrainingFrame linear =
        Code("Linear.__init__", "/v/lib/python3.11/site-packages/torch/nn/modules/linear.py", 109);
    const uint64_t built = trace.Stack({linear, Code("build", "/job/train.py", 5), Code("<module>", "/job/train.py")});
    const uint64_t run = trace.Stack({Code("run", "/job/train.py", 9), Code("<module>", "/job/train.py", 2)});
    trace.builder().CudaAlloc(kSegment, 1024 * kMiB, built);
    for (uint64_t i = 0; i < 30; ++i) {
      trace.builder().TorchAlloc(kKept + i * kMiB, kMiB, built);
      if (runs) trace.builder().TorchAlloc(kSegment, kMiB, run).TorchFree(kSegment, kMiB);
    }
    trace.builder().End();
    EXPECT_EQ(Find(trace).AnyGrows(), runs) << "a model for each iteration is a leak";
  }
}

TEST(FindLeaks, TooFewIterationsAreNotJudged) {
  Program program;
  for (int i = 0; i < 5; ++i) {
    for (int inner = 0; inner < 4; ++inner) program.Iteration(inner, true, inner == 3);
  }
  program.trace.builder().End();
  EXPECT_TRUE(Find(program.trace).loops.empty()) << "20 of something, but inside of 5 steps";
}

TEST(FindLeaks, SavedMemoryThatStaysIsAGraph) {
  Program program;
  program.saves = true;
  for (int i = 0; i < 40; ++i) program.Iteration(i, true, true);
  program.trace.builder().End();
  const LeakFindings found = Find(program.trace);
  ASSERT_EQ(found.devices.at(0).rows.size(), 1u);
  EXPECT_EQ(found.devices[0].rows[0].kind, LeakKind::kGraph);
  EXPECT_EQ(found.devices[0].rows[0].candidate.line, 0u) << "there is no source to look at";
}

// Addresses of owners are those of the snapshot's moment: what was freed before, or comes later, has none.
TEST(FindLeaks, OwnersAreThoseOfTheirMoment) {
  Program program;
  for (int i = 0; i < 40; ++i) program.Iteration(i, true, true);
  trace::Definitions& definitions = program.trace.builder().definitions();
  trace::OwnerSnapshot* const snapshot = definitions.add_owner_snapshots();
  snapshot->set_id(1);
  snapshot->set_time_ns(program.trace.builder().time_ns());
  snapshot->set_cause(trace::OWNERS_RUN_END);
  snapshot->set_collector(2);
  for (const uint32_t id : {1u, 2u}) {
    trace::Owner* const owner = definitions.add_owners();
    owner->set_snapshot(1);
    owner->set_id(id);
    owner->set_root(id == 1 ? trace::ROOT_GLOBAL : trace::ROOT_CYCLE);
    owner->set_path(id == 1 ? "history[*]" : ".out");
    for (uint64_t i = id == 1 ? 0 : 30; i < (id == 1 ? 30u : 35u); ++i) owner->add_addresses(kKept + i * kMiB);
    owner->add_addresses(kKept + 1000 * kMiB);  // nothing is there
  }
  program.trace.builder().End();
  const LeakFindings found = Find(program.trace);
  ASSERT_EQ(found.devices.at(0).rows.size(), 1u);
  const SeenOwners& owners = found.devices[0].rows[0].owners;
  EXPECT_EQ(owners.cause, OwnersCause::kRunEnd);
  EXPECT_EQ(owners.collector, 2u);
  EXPECT_EQ(owners.blocks, 40u);
  EXPECT_EQ(owners.blocks_without, 5u);
  EXPECT_EQ(owners.bytes_without, 5u * 4096);
  ASSERT_EQ(owners.owners.size(), 2u);
  EXPECT_EQ(owners.owners[0].path, "history[*]");
  EXPECT_EQ(owners.owners[0].blocks, 30u);
  EXPECT_EQ(owners.owners[1].root, OwnerRoot::kCycle);
  EXPECT_EQ(owners.owners[1].blocks, 5u);
}

// What autograd saved has the owner of the graph, by the numbers of its nodes; not where two threads gave the same
// ones.
TEST(FindLeaks, GraphsAreKnownByTheirNodes) {
  for (const bool ambiguous : {false, true}) {
    Program program;
    program.saves = true;
    for (int i = 0; i < 40; ++i) program.Iteration(i, true, true);
    if (ambiguous) {
      EventRow row;
      row.kind = trace::SAVED;
      row.address = kKept;
      row.handle = 30;
      row.thread = 7;
      program.trace.builder().Thread(7, "other");
      program.trace.builder().Event(row);
    }
    trace::Definitions& definitions = program.trace.builder().definitions();
    trace::OwnerSnapshot* const snapshot = definitions.add_owner_snapshots();
    snapshot->set_id(1);
    snapshot->set_time_ns(program.trace.builder().time_ns() + 1);
    trace::Owner* const owner = definitions.add_owners();
    owner->set_snapshot(1);
    owner->set_id(1);
    owner->set_root(trace::ROOT_GLOBAL);
    owner->set_path("losses[*].grad_fn");
    for (uint64_t node = 11; node <= 40; ++node) owner->add_nodes(node);
    program.trace.builder().End();
    const LeakFindings found = Find(program.trace);
    const SeenOwners& owners = found.devices.at(0).rows.at(0).owners;
    ASSERT_EQ(owners.owners.size(), 1u);
    EXPECT_EQ(owners.owners[0].blocks, ambiguous ? 29u : 30u);
  }
}

TEST(FindLeaks, SuppressedRowsAreCounted) {
  Program program;
  for (int i = 0; i < 40; ++i) program.Iteration(i, true, true);
  program.trace.builder().End();
  const Suppressions suppressions = *Suppressions::Parse("leak:remember");
  const LeakFindings found = Find(program.trace, &suppressions);
  EXPECT_TRUE(found.devices.at(0).rows.empty());
  EXPECT_EQ(found.devices[0].suppressed, 1u);
  EXPECT_FALSE(found.AnyGrows());
}

}  // namespace
}  // namespace gpumem

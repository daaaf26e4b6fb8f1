// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Growth of what is not PyTorch's.

#include <gtest/gtest.h>

#include <optional>

#include "find_leaks.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

using testing::Code;
using testing::TrainingTrace;

// A training of 30 steps, each of which also makes `kept`; `frees` at the end, one for each step.
LeakFindings FindBeside(EventRow kept, std::optional<EventRow> frees) {
  TrainingTrace trace;
  const uint64_t stack = trace.Stack({Code("grab", "/job/train.py", 12), Code("<module>", "/job/train.py")});
  const uint64_t batch = trace.Stack({Code("batch", "/job/train.py", 5), Code("<module>", "/job/train.py")});
  const uint32_t optimizer = trace.Optimizer("SGD");
  trace.builder().CudaAlloc(kSegment, 64 * kMiB, batch);
  kept.stack = stack;
  kept.layer = trace::DRIVER;
  for (uint64_t step = 0; step < 30; ++step) {
    trace.builder().TorchAlloc(kSegment, kMiB, batch);
    trace.StepBegins(optimizer).StepEnds(optimizer);
    EventRow row = kept;
    (row.kind == trace::ALLOC ? row.address : row.handle) = kKept + step * 4 * kMiB;
    trace.builder().Event(row).TorchFree(kSegment, kMiB);
  }
  for (uint64_t step = 0; frees && step < 30; ++step) {
    EventRow row = *frees;
    row.layer = trace::DRIVER;
    (row.kind == trace::FREE ? row.address : row.handle) = kKept + step * 4 * kMiB;
    trace.builder().Event(row);
  }
  trace.builder().End();
  return Find(trace);
}

EventRow Beside(trace::EventKind kind, trace::Memory memory = trace::DEVICE) {
  EventRow row;
  row.kind = kind;
  row.memory = memory;
  row.device = 0;
  row.size = 2 * kMiB;
  return row;
}

const LeakRow* RowOf(const LeakFindings& found, int device, LeakKind kind) {
  for (const LeakDevice& each : found.devices) {
    if (each.device != device) continue;
    for (const LeakRow& row : each.rows)
      if (row.kind == kind) return &row;
  }
  return nullptr;
}

TEST(LeaksBeside, WhatIsNotPyTorchsGrowsByItsLineToo) {
  struct Part {
    EventRow kept;
    int device;
    LeakKind kind;
  };
  const Part parts[] = {{Beside(trace::ALLOC), 0, LeakKind::kOutside},
                        {Beside(trace::ALLOC, trace::STREAM_ORDERED), 0, LeakKind::kOutside},
                        {Beside(trace::ALLOC, trace::MANAGED), kHostDevice, LeakKind::kManaged},
                        {Beside(trace::ALLOC, trace::HOST_PINNED), kHostDevice, LeakKind::kHost},
                        {Beside(trace::MODULE_LOAD), 0, LeakKind::kDriver},
                        {Beside(trace::CONTEXT_CREATE), 0, LeakKind::kDriver}};
  for (const Part& part : parts) {
    const LeakFindings found = FindBeside(part.kept, std::nullopt);
    const LeakRow* const row = RowOf(found, part.device, part.kind);
    ASSERT_NE(row, nullptr) << LeakKindName(part.kind);
    EXPECT_EQ(row->status, LeakStatus::kGrowing) << LeakKindName(part.kind);
    EXPECT_EQ(row->place.site, "/job/train.py:12");
    EXPECT_DOUBLE_EQ(row->bytes_per_iteration, 2 * kMiB);
  }
}

// A leak has two witnesses: it grows, and the program did not free it at its end.
TEST(LeaksBeside, WhatTheProgramFreesAtItsEndIsNoLeak) {
  struct Part {
    EventRow kept, freed;
  };
  const Part parts[] = {
      {Beside(trace::ALLOC), Beside(trace::FREE)},
      {Beside(trace::ALLOC, trace::MANAGED), Beside(trace::FREE, trace::MANAGED)},
      {Beside(trace::ALLOC, trace::HOST_PINNED), Beside(trace::FREE, trace::HOST_PINNED)},
      {Beside(trace::MODULE_LOAD), Beside(trace::MODULE_UNLOAD)},
  };
  for (const Part& part : parts) EXPECT_FALSE(FindBeside(part.kept, part.freed).AnyGrows()) << part.kept.kind;
}

}  // namespace
}  // namespace gpumem

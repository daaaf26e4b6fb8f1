// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Single cases; random schedules are in tests/property/aggregate_property_test.cc.

#include "ledger/stacks/aggregate.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/strings/str_cat.h"
#include "ledger/saved/saved_answers.h"
#include "replay/analyze.h"
#include "testing/index_folder.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing::TraceBuilder;

constexpr uint64_t kSegment = 0x7f0000000000, kMiB = 1 << 20;

using ByStack = std::map<uint64_t, uint64_t>;

struct Answer {
  Analysis analysis;
  AggregatedStacks aggregated;
  bool is_in_lives = false;
  ByStack bytes() const {
    ByStack result;
    for (const AggregatedStack& stack : aggregated.stacks) result[stack.stack_id] += stack.weight.bytes;
    return result;
  }
};

std::string TextOf(const AggregatedStacks& aggregated) {
  std::string text;
  for (const AggregatedDevice& device : aggregated.devices)
    absl::StrAppend(&text, "GPU ", device.device, " ", ViewMeasureName(device.measure), " ", device.time_ns, " ",
                    device.bytes, "\n");
  for (const AggregatedStack& stack : aggregated.stacks)
    absl::StrAppend(&text, stack.stack_id, " ", stack.device, " ", stack.thread, " ", stack.api, " ", stack.size, " ",
                    stack.weight.bytes, " ", stack.weight.count, "\n");
  return text;
}

// What is read of the lives that are kept of a large trace is the same. False where they cannot say it.
bool ExpectSameFromLives(const std::string& path, const StackSelection& selection, const AggregatedStacks& replayed) {
  const testing::IndexFolder folder;
  setenv("GPUMEMSHIM_INDEX_ABOVE", "0", 1);
  LoadRequest request;
  request.place = path;
  const auto loaded = LoadTrace(request);
  unsetenv("GPUMEMSHIM_INDEX_ABOVE");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  const SavedAnswers* const answers = loaded.ok() ? AnswersOf(loaded->get()) : nullptr;
  if (answers == nullptr) return false;
  const auto kept = AggregateKept(answers->lives(), (*loaded)->analysis, (*loaded)->stacks, selection);
  if (!kept.has_value()) return false;
  EXPECT_EQ(TextOf(*kept), TextOf(replayed));
  return true;
}

Answer Aggregate(TraceBuilder* trace, const StackSelection& selection, const AnalyzeOptions& asked = {}) {
  const std::string path = trace->WriteTemporary();
  Answer answer;
  absl::StatusOr<Analysis> analysis = Analyze(path, asked, nullptr, nullptr, [&](const OpenTrace& open) {
    answer.aggregated = AggregateStacks(open, asked, selection);
  });
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  const bool is_whole =
      asked.device < 0 && asked.layer == LayerFilter::kAll && asked.from_ns == 0 && asked.to_ns == UINT64_MAX;
  answer.is_in_lives = is_whole && ExpectSameFromLives(path, selection, answer.aggregated);
  std::remove(path.c_str());
  if (analysis.ok()) answer.analysis = *std::move(analysis);
  return answer;
}

StackSelection Of(ViewMode mode, ViewMeasure measure = ViewMeasure::kDefault) {
  StackSelection selection;
  selection.mode = mode;
  selection.measure = measure;
  return selection;
}

uint64_t StackNamed(TraceBuilder* trace, const std::string& name) { return trace->PythonStack({{name, "m.py", 1}}); }

TEST(Aggregate, LivesThatAreKeptSayWhatAReplaySays) {
  for (const ViewMode mode : {ViewMode::kPeak, ViewMode::kLeaks, ViewMode::kTotal, ViewMode::kAverage}) {
    for (const ViewMeasure measure : {ViewMeasure::kDefault, ViewMeasure::kReserved, ViewMeasure::kTotal}) {
      TraceBuilder trace;
      trace.Device(0, "GPU", 1 << 30).Device(1, "GPU", 1 << 30);
      const uint64_t a = StackNamed(&trace, "a"), b = StackNamed(&trace, "b");
      trace.CudaAlloc(kSegment, 20 * kMiB, a).TorchAlloc(kSegment, kMiB, b).TorchAlloc(kSegment + kMiB, 2 * kMiB, a);
      trace.TorchFree(kSegment, kMiB)
          .TorchAlloc(kSegment, kMiB, a)
          .CudaAlloc(kSegment + (1ull << 40), kMiB, b, 1)
          .End();
      const Answer answer = Aggregate(&trace, Of(mode, measure));
      EXPECT_FALSE(answer.aggregated.stacks.empty());
      EXPECT_TRUE(answer.is_in_lives);
    }
  }
}

TEST(Aggregate, AnEmptyTraceHasNoStacks) {
  for (const ViewMode mode : {ViewMode::kPeak, ViewMode::kLeaks, ViewMode::kTotal, ViewMode::kTemporary}) {
    TraceBuilder trace;
    trace.End();
    const Answer answer = Aggregate(&trace, Of(mode));
    EXPECT_TRUE(answer.aggregated.stacks.empty());
    EXPECT_EQ(answer.aggregated.all, Weight{});
  }
}

TEST(Aggregate, ThePeakIsWhatThePeakCommandSays) {
  TraceBuilder trace;
  const uint64_t a = StackNamed(&trace, "a"), b = StackNamed(&trace, "b");
  trace.CudaAlloc(kSegment, 20 * kMiB, b).TorchAlloc(kSegment, 4 * kMiB, a).TorchAlloc(kSegment + 8 * kMiB, kMiB, b);
  trace.TorchFree(kSegment, 4 * kMiB).End();
  const Answer answer = Aggregate(&trace, Of(ViewMode::kPeak));
  EXPECT_THAT(answer.bytes(), ElementsAre(Pair(a, 4 * kMiB), Pair(b, kMiB)));
  ASSERT_EQ(answer.aggregated.devices.size(), 1u);
  EXPECT_EQ(answer.aggregated.devices[0].bytes, answer.analysis.devices[0].peak_allocated.bytes);
  EXPECT_EQ(answer.aggregated.devices[0].measure, ViewMeasure::kAllocated);
  EXPECT_THAT(Aggregate(&trace, Of(ViewMode::kPeak, ViewMeasure::kReserved)).bytes(), ElementsAre(Pair(b, 20 * kMiB)));
}

TEST(Aggregate, WithoutPyTorchThePeakIsThatOfAllMemory) {
  TraceBuilder trace;
  const uint64_t a = StackNamed(&trace, "a");
  trace.CudaAlloc(kSegment, kMiB, a).CudaFree(kSegment).End();
  const Answer answer = Aggregate(&trace, Of(ViewMode::kPeak));
  EXPECT_THAT(answer.bytes(), ElementsAre(Pair(a, kMiB)));
  EXPECT_EQ(answer.aggregated.devices[0].measure, ViewMeasure::kTotal);
}

TEST(Aggregate, TemporaryIsWhatIsFreedAfterAtMostNOthersOfItsThread) {
  TraceBuilder trace;
  const uint64_t grows = StackNamed(&trace, "grows"), stays = StackNamed(&trace, "stays");
  const uint32_t one = trace.Thread(1, "one"), two = trace.Thread(2, "two");
  trace.OnThread(one).CudaAlloc(kSegment, 20 * kMiB);
  trace.TorchAlloc(kSegment, kMiB, stays).TorchAlloc(kSegment + kMiB, kMiB, grows);
  trace.TorchAlloc(kSegment + 2 * kMiB, kMiB, stays);
  trace.OnThread(two).TorchAlloc(kSegment + 3 * kMiB, kMiB, stays).TorchAlloc(kSegment + 4 * kMiB, kMiB, stays);
  trace.OnThread(one).TorchFree(kSegment + kMiB, kMiB);  // one other of its own thread
  trace.TorchFree(kSegment, kMiB).End();                 // two others
  StackSelection selection = Of(ViewMode::kTemporary);
  EXPECT_THAT(Aggregate(&trace, selection).bytes(), ElementsAre(Pair(grows, kMiB)));
  selection.temporary_threshold = 0;
  EXPECT_THAT(Aggregate(&trace, selection).bytes(), ElementsAre());
  selection.temporary_threshold = 2;
  EXPECT_THAT(Aggregate(&trace, selection).bytes(), ElementsAre(Pair(grows, kMiB), Pair(stays, kMiB)));
}

TEST(Aggregate, AverageIsBytesTimesLifetimeByTheWindowsLength) {
  TraceBuilder trace(1000);
  const uint64_t is_long = StackNamed(&trace, "long"), is_short = StackNamed(&trace, "short");
  trace.TorchAlloc(kSegment, 10 * kMiB, is_long);
  for (int i = 0; i < 4; ++i)
    trace.TorchAlloc(kSegment + 16 * kMiB, 8 * kMiB, is_short).TorchFree(kSegment + 16 * kMiB, 8 * kMiB);
  trace.TorchAlloc(kSegment + 32 * kMiB, 100 * kMiB, is_short).End();
  const Answer answer = Aggregate(&trace, Of(ViewMode::kAverage));
  // Nine steps of time: one is held for all of them, the other for four. What begins with the last event is held for
  // none.
  EXPECT_THAT(answer.bytes(), ElementsAre(Pair(is_long, 10 * kMiB), Pair(is_short, (4 * 8 * kMiB + 4) / 9)));
  EXPECT_EQ(answer.aggregated.all.count, 6u);
  AnalyzeOptions asked;
  asked.from_ns = 2 * 1000;
  asked.to_ns = 4 * 1000;
  EXPECT_THAT(Aggregate(&trace, Of(ViewMode::kAverage), asked).bytes(),
              ElementsAre(Pair(is_long, 10 * kMiB), Pair(is_short, 4 * kMiB)))
      << "what was there before the window counts in it";
}

TEST(Aggregate, TotalCountsPhysicalMemoryOnceAndSegmentsApart) {
  TraceBuilder trace;
  const uint64_t expands = StackNamed(&trace, "expands"), uses = StackNamed(&trace, "uses");
  const auto vmm = [&](trace::EventKind kind, uint64_t address, uint64_t size, uint64_t handle, uint64_t stack = 0) {
    EventRow row;
    row.kind = kind;
    row.layer = trace::DRIVER;
    row.memory = kind == trace::PHYSICAL_CREATE ? trace::PHYSICAL : trace::VIRTUAL;
    row.device = 0;
    row.address = address;
    row.size = size;
    row.handle = handle;
    row.stack = stack;
    trace.Event(row);
  };
  vmm(trace::ADDRESS_RESERVE, kSegment, 64 * kMiB, 0);
  vmm(trace::PHYSICAL_CREATE, 0, 2 * kMiB, 77, expands);
  vmm(trace::MAP, kSegment, 2 * kMiB, 77);
  trace.TorchAlloc(kSegment, kMiB, uses).TorchFree(kSegment, kMiB).TorchAlloc(kSegment, kMiB, uses);
  trace.TorchFree(kSegment, kMiB);
  vmm(trace::UNMAP, kSegment, 2 * kMiB, 0);
  vmm(trace::PHYSICAL_RELEASE, 0, 0, 77);
  trace.End();
  EXPECT_THAT(Aggregate(&trace, Of(ViewMode::kTotal)).bytes(), ElementsAre(Pair(uses, 2 * kMiB)));
  EXPECT_THAT(Aggregate(&trace, Of(ViewMode::kTotal, ViewMeasure::kReserved)).bytes(),
              ElementsAre(Pair(expands, 2 * kMiB)));
  EXPECT_THAT(Aggregate(&trace, Of(ViewMode::kTotal, ViewMeasure::kTotal)).bytes(),
              ElementsAre(Pair(expands, 2 * kMiB)));
}

TEST(Aggregate, AFreeThatWasLostEndsALifeToo) {
  TraceBuilder trace;
  const uint64_t a = StackNamed(&trace, "a"), b = StackNamed(&trace, "b");
  trace.CudaAlloc(kSegment, 20 * kMiB).TorchAlloc(kSegment, kMiB, a).TorchAlloc(kSegment, kMiB, b);
  trace.CudaFree(kSegment).End();  // with the block of b in it
  EXPECT_THAT(Aggregate(&trace, Of(ViewMode::kTotal)).bytes(), ElementsAre(Pair(a, kMiB), Pair(b, kMiB)));
  EXPECT_THAT(Aggregate(&trace, Of(ViewMode::kLeaks)).bytes(), ElementsAre());
}

TEST(Aggregate, GraphMemoryIsStatedAgainAndCountsOnce) {
  TraceBuilder trace;
  const uint64_t a = StackNamed(&trace, "a");
  for (const uint64_t size : {2 * kMiB, 6 * kMiB, 4 * kMiB}) {
    EventRow row;
    row.kind = trace::GRAPH_MEMORY;
    row.layer = trace::DRIVER;
    row.device = 0;
    row.size = size;
    row.stack = a;
    trace.Event(row);
  }
  trace.End();
  EXPECT_THAT(Aggregate(&trace, Of(ViewMode::kTotal)).bytes(), ElementsAre(Pair(a, 4 * kMiB)));
}

// Pinned, managed and imported memory, which is not a GPU's.
struct Outside {
  TraceBuilder trace;
  uint64_t early = 0, late = 0;

  void Add(trace::EventKind kind, trace::Memory memory, uint64_t address, uint64_t size = 0, uint64_t stack = 0) {
    EventRow row;
    row.kind = kind;
    row.layer = trace::RUNTIME;
    row.memory = memory;
    row.device = size == 0 ? 0 : 1;  // whichever was current
    row.address = address;
    row.size = size;
    row.stack = stack;
    trace.Event(row);
  }

  Outside() {
    early = StackNamed(&trace, "early");
    late = StackNamed(&trace, "late");
    trace.CudaAlloc(kSegment, 20 * kMiB, early);
    Add(trace::ALLOC, trace::HOST_PINNED, 0x1000, 3 * kMiB, early);
    Add(trace::HOST_REGISTER, trace::HOST_PINNED, 0x400000, kMiB, late);
    Add(trace::FREE, trace::HOST_PINNED, 0x1000);
    Add(trace::ALLOC, trace::HOST_PINNED, 0x800000, 2 * kMiB, late);
    Add(trace::ALLOC, trace::MANAGED, 0xa00000, 5 * kMiB, late);
    Add(trace::IMPORT, trace::DEVICE, 0xb000000, 7 * kMiB, early);
    Add(trace::IMPORT_CLOSE, trace::DEVICE, 0xb000000);
    trace.End();
  }
};

TEST(Aggregate, MemoryOutsideOfGpusIsOfTheProcess) {
  Outside outside;
  const auto aggregate = [&](ViewMode mode, ViewMeasure measure) {
    return Aggregate(&outside.trace, Of(mode, measure));
  };
  const uint64_t early = outside.early, late = outside.late;
  const Answer peak = aggregate(ViewMode::kPeak, ViewMeasure::kPinned);
  EXPECT_THAT(peak.bytes(), ElementsAre(Pair(early, 3 * kMiB), Pair(late, kMiB)));
  ASSERT_EQ(peak.aggregated.devices.size(), 1u);
  EXPECT_EQ(peak.aggregated.devices[0].device, kProcess);
  EXPECT_EQ(peak.aggregated.devices[0].bytes, peak.analysis.host_pinned_peak);
  EXPECT_EQ(peak.aggregated.stacks[0].device, kProcess);
  const Answer leaks = aggregate(ViewMode::kLeaks, ViewMeasure::kPinned);
  EXPECT_THAT(leaks.bytes(), ElementsAre(Pair(late, 3 * kMiB)));
  EXPECT_EQ(leaks.aggregated.devices[0].bytes, leaks.analysis.host_pinned_end);
  EXPECT_THAT(aggregate(ViewMode::kTotal, ViewMeasure::kPinned).bytes(),
              ElementsAre(Pair(early, 3 * kMiB), Pair(late, 3 * kMiB)));
  EXPECT_THAT(aggregate(ViewMode::kTemporary, ViewMeasure::kPinned).bytes(), ElementsAre(Pair(early, 3 * kMiB)));
  EXPECT_THAT(aggregate(ViewMode::kPeak, ViewMeasure::kManaged).bytes(), ElementsAre(Pair(late, 5 * kMiB)));
  EXPECT_THAT(aggregate(ViewMode::kPeak, ViewMeasure::kImported).bytes(), ElementsAre(Pair(early, 7 * kMiB)));
  EXPECT_THAT(aggregate(ViewMode::kLeaks, ViewMeasure::kImported).bytes(), ElementsAre());
  EXPECT_THAT(aggregate(ViewMode::kTotal, ViewMeasure::kTotal).bytes(), ElementsAre(Pair(early, 20 * kMiB)));
}

TEST(Aggregate, ThePeakOfTheProcessIsThatOfTheWindow) {
  Outside outside;
  AnalyzeOptions behind, before;
  behind.from_ns = 3'500;  // events are 1 us apart: after the free
  before.to_ns = 1'500;
  const StackSelection pinned = Of(ViewMode::kPeak, ViewMeasure::kPinned);
  EXPECT_THAT(Aggregate(&outside.trace, pinned, behind).bytes(), ElementsAre(Pair(outside.late, 3 * kMiB)));
  EXPECT_THAT(Aggregate(&outside.trace, pinned, before).bytes(), ElementsAre(Pair(outside.early, 3 * kMiB)));
  behind.from_ns = 1'000'000'000;  // behind everything: what is left
  EXPECT_THAT(Aggregate(&outside.trace, pinned, behind).bytes(), ElementsAre(Pair(outside.late, 3 * kMiB)));
}

TEST(Aggregate, ALayerAndADeviceMayBeAskedFor) {
  TraceBuilder trace;
  const uint64_t a = StackNamed(&trace, "a"), b = StackNamed(&trace, "b"), c = StackNamed(&trace, "c");
  trace.CudaAlloc(kSegment, 20 * kMiB, a).TorchAlloc(kSegment, kMiB, b);
  trace.CudaAlloc(kSegment + 64 * kMiB, 2 * kMiB, c, 1).End();
  AnalyzeOptions runtime;
  runtime.layer = LayerFilter::kRuntime;
  EXPECT_THAT(Aggregate(&trace, Of(ViewMode::kTotal), runtime).bytes(),
              ElementsAre(Pair(a, 20 * kMiB), Pair(c, 2 * kMiB)));
  AnalyzeOptions device;
  device.device = 1;
  EXPECT_THAT(Aggregate(&trace, Of(ViewMode::kTotal), device).bytes(), ElementsAre(Pair(c, 2 * kMiB)));
  StackSelection first = Of(ViewMode::kTotal);
  first.device = 0;
  EXPECT_THAT(Aggregate(&trace, first).bytes(), ElementsAre(Pair(b, kMiB)));
}

TEST(Aggregate, ATraceWithoutAnEndIsAggregatedUpToItsLastEvent) {
  TraceBuilder trace;
  const uint64_t a = StackNamed(&trace, "a"), b = StackNamed(&trace, "b");
  trace.CudaAlloc(kSegment, 20 * kMiB, a).TorchAlloc(kSegment, kMiB, b).FlushBatch();
  const Answer answer = Aggregate(&trace, Of(ViewMode::kTotal));
  EXPECT_FALSE(answer.analysis.complete);
  EXPECT_THAT(answer.bytes(), ElementsAre(Pair(b, kMiB)));
  EXPECT_EQ(answer.aggregated.stacks[0].weight.count, 1u);
}

}  // namespace
}  // namespace gpumem

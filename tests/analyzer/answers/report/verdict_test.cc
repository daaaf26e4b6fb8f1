// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/verdict.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/str_split.h"
#include "answers/report/reserve_causes.h"
#include "answers/report/sections.h"
#include "answers/report/what_if.h"
#include "base/utf8.h"
#include "fixture.h"
#include "gpumem/trace.pb.h"
#include "render/draw.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::Example;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kGiB;
using ::testing::Not;
using ::testing::StartsWith;

// Nothing is wrong with it.
Example HealthyExample() {
  Example example = testing::TrainingExample();
  DeviceAnalysis& device = example.analysis.devices[0];
  device.leaks.growth.clear();
  device.fragmentation.at_peak.external_ratio = 0.1;
  device.capacity = 80 * kGiB;
  return example;
}

std::string Overview(Example* example, int width = 80) {
  TextStyle style;
  style.width = width;
  style.utf8 = true;
  const ReportInput input = example->input();
  Document answer;
  TextOptions options;
  options.top = 4;
  AddOverview(input, options, &answer);
  return ToText(answer, style);
}

TEST(Verdict, WhereNothingIsWrongNothingIsToBeDone) {
  Example example = HealthyExample();
  const Verdict verdict = MakeVerdict(example.input());
  EXPECT_EQ(verdict.kind, VerdictKind::kFits);
  EXPECT_THAT(verdict.problem, IsEmpty());
  EXPECT_THAT(verdict.peak, StartsWith("36 GiB allocated, "));
  EXPECT_THAT(verdict.mostly, StartsWith("top line model.py:42 Block.forward, 22.00 GiB"));
  EXPECT_THAT(verdict.action, StartsWith("nothing: this program left "));
  EXPECT_THAT(verdict.action, HasSubstr(" of GPU 0 free"));
}

// cuBLAS allocates its own memory past PyTorch: a category, but no part of what PyTorch has allocated.
TEST(Verdict, CategoriesOfAllocatedMemoryAreThoseOfPyTorchsBlocks) {
  Example example = HealthyExample();
  testing::AddAttribution(&example);
  Moment& moment = example.attribution.moments[0];
  AttributedUse own = moment.uses[0];
  own.layer = trace::DRIVER;
  own.category = Category::kWorkspace;
  own.bytes = 50 * kGiB;
  moment.uses.push_back(own);
  moment.categories[static_cast<size_t>(Category::kWorkspace)] = own.bytes;
  const PeakCategories allocated = CategoriesOfPeak(moment, Measure::kAllocated, 0);
  EXPECT_EQ(std::accumulate(allocated.bytes.begin(), allocated.bytes.end(), uint64_t{0}), moment.values.allocated);
  EXPECT_EQ(allocated.bytes[static_cast<size_t>(Category::kWorkspace)], 0u);
  EXPECT_EQ(CategoriesOfPeak(moment, Measure::kTotal, 0).bytes[static_cast<size_t>(Category::kWorkspace)], own.bytes);
  EXPECT_THAT(MakeVerdict(example.input()).mostly, StartsWith("activations (83 % of the peak)"));
  EXPECT_THAT(Overview(&example), Not(HasSubstr("workspaces")));
}

TEST(Verdict, SaysWhatThePeakWasFor) {
  Example example = HealthyExample();
  testing::AddAttribution(&example);
  EXPECT_THAT(MakeVerdict(example.input()).mostly, Not(StartsWith("top line")));
}

TEST(Verdict, ALittleGrowthIsNoLeak) {
  Example example = HealthyExample();
  testing::AddLeak(&example, kGiB / 10);
  EXPECT_EQ(MakeVerdict(example.input()).kind, VerdictKind::kFits);
  testing::AddLeak(&example, 4 * kGiB);
  const Verdict verdict = MakeVerdict(example.input());
  EXPECT_EQ(verdict.kind, VerdictKind::kGrowing);
  EXPECT_EQ(verdict.problem, "model.py:42 Block.forward keeps growing, 102.4 MiB per step since step 1");
  EXPECT_THAT(verdict.action, HasSubstr("gpumemshim leaks"));
  example.leaks.devices[0].rows[0].status = LeakStatus::kStopped;
  EXPECT_EQ(MakeVerdict(example.input()).kind, VerdictKind::kFits) << "what settles is not a leak";
}

WhatIfAnswer ReplayOf(const DeviceAnalysis& device, uint64_t peak_reserved) {
  WhatIfAnswer answer;
  answer.torch = "2.11.0";
  answer.device = device.device;
  answer.is_exact = true;
  answer.recorded.peak_reserved = device.peak_reserved.bytes;
  answer.other = {"expandable_segments:True", peak_reserved, std::nullopt};
  return answer;
}

// A setting is offered with what it saves, by replay, and is a problem only where the device is nearly full.
TEST(Verdict, ReservedAboveAllocatedIsAProblemWhereTheDeviceIsFullAndAReplaySavesSome) {
  Example example = HealthyExample();
  DeviceAnalysis& device = example.analysis.devices[0];
  device.peak_reserved.bytes = device.peak_allocated.bytes + 4 * kGiB;
  ReportInput input = example.input();
  EXPECT_EQ(WasteOf(device), 4 * kGiB);
  EXPECT_TRUE(IsWorthReplay(input, device));
  EXPECT_EQ(MakeVerdict(input).kind, VerdictKind::kFits);
  EXPECT_THAT(MakeVerdict(input).action, Not(HasSubstr("expandable"))) << "what it saves is not known";

  const WhatIfAnswer replay = ReplayOf(device, device.peak_allocated.bytes + kGiB);
  input.what_if = &replay;
  EXPECT_EQ(ReplayedSaving(&replay, device), 3 * kGiB);
  Verdict verdict = MakeVerdict(input);
  EXPECT_EQ(verdict.kind, VerdictKind::kFits);
  EXPECT_THAT(verdict.action, AllOf(StartsWith("nothing: "), HasSubstr("expandable_segments:True would reserve ")));

  device.capacity = std::max(device.peak_total.bytes, device.peak_reserved.bytes) + kGiB;
  verdict = MakeVerdict(input);
  EXPECT_EQ(verdict.kind, VerdictKind::kFragmented);
  EXPECT_THAT(verdict.action, StartsWith("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True would reserve "));
}

// The cause is named, with the change of the program that a replay knows the saving of.
TEST(Verdict, FreeMemoryOnStreamsIsToldAndMended) {
  Example example = HealthyExample();
  DeviceAnalysis& device = example.analysis.devices[0];
  device.peak_reserved.bytes = device.peak_allocated.bytes + 8 * kGiB;
  Fragmentation& fragmentation = device.fragmentation;
  fragmentation.chains = {{device.at_peak_allocated.stacks.front().stack_id, true, 40, {33, 65, 97}}};
  for (const uint64_t stream : {33, 65, 97}) fragmentation.caches_at_peak.push_back({stream, 0, 1, 3 * kGiB, 2 * kGiB});
  ReportInput input = example.input();
  EXPECT_EQ(StrandedText(device, input),
            "4 GiB free on 2 CUDA streams that were each used for a while (taken in model.py:42 Block.forward)");
  EXPECT_THAT(MakeVerdict(input).action, Not(HasSubstr("stream"))) << "what it saves is not known";

  WhatIfAnswer replay = ReplayOf(device, device.peak_reserved.bytes - kGiB);
  replay.changes = {{"", device.peak_allocated.bytes, std::nullopt, ProgramChange::kOneStream}};
  input.what_if = &replay;
  EXPECT_THAT(MakeVerdict(input).action,
              AllOf(HasSubstr("make one CUDA stream and use it again: model.py:42 Block.forward takes a new one each "
                              "time (40 times); that would reserve 36 GiB instead of 44 GiB (replayed)"),
                    Not(HasSubstr("expandable"))));
  replay.other.why_not = "no address space is left";
  EXPECT_EQ(Remedies(device, input, 5).size(), 1u) << "the other setting is not known";
}

TEST(Verdict, PrivatePoolsAreToldAndMended) {
  Example example = HealthyExample();
  DeviceAnalysis& device = example.analysis.devices[0];
  device.peak_reserved.bytes = device.peak_allocated.bytes + 8 * kGiB;
  device.fragmentation.caches_at_peak = {{3, 1, 4, 5 * kGiB, 4 * kGiB}, {3, 2, 4, 5 * kGiB, 4 * kGiB}};
  ReportInput input = example.input();
  EXPECT_EQ(StrandedText(device, input), "8 GiB free in 2 private pools of CUDA graphs");
  WhatIfAnswer replay = ReplayOf(device, device.peak_reserved.bytes);
  replay.changes = {{"", device.peak_reserved.bytes - 4 * kGiB, std::nullopt, ProgramChange::kOnePool}};
  input.what_if = &replay;
  EXPECT_THAT(MakeVerdict(input).action, HasSubstr("the same pool (pool=): 2 private pools of graphs hold 10 GiB"));
}

TEST(Verdict, WhatAReplayCannotFollowHasNoNumber) {
  Example example = HealthyExample();
  DeviceAnalysis& device = example.analysis.devices[0];
  device.peak_reserved.bytes = device.peak_allocated.bytes + 4 * kGiB;
  WhatIfAnswer replay = ReplayOf(device, device.peak_allocated.bytes);
  replay.not_followed = "a MemPool was made";
  ReportInput input = example.input();
  input.what_if = &replay;
  EXPECT_THAT(MakeVerdict(input).action, Not(HasSubstr("expandable")));
}

TEST(Verdict, AReplayThatDoesNotGiveWhatWasRecordedTellsNothing) {
  Example example = HealthyExample();
  DeviceAnalysis& device = example.analysis.devices[0];
  device.peak_reserved.bytes = device.peak_allocated.bytes + 4 * kGiB;
  WhatIfAnswer replay = ReplayOf(device, device.peak_allocated.bytes);
  replay.is_exact = false;
  EXPECT_EQ(ReplayedSaving(&replay, device), 4 * kGiB) << "its peak is the recorded one";
  replay.recorded.peak_reserved -= 512;
  EXPECT_EQ(ReplayedSaving(&replay, device), 0u);
  replay.is_exact = true;
  EXPECT_EQ(ReplayedSaving(&replay, device), 0u) << "of a part of the run, whose peak is another one";
  replay.why_not = "no Python with PyTorch found";
  EXPECT_EQ(ReplayedSaving(&replay, device), 0u);
}

// One moment has no peak, and what is scattered then may serve the next moment.
TEST(Verdict, OfOneMomentIsNoVerdict) {
  Example example = HealthyExample();
  example.analysis.process.settings = {
      {"imported_format", "PyTorch snapshot"}, {"imported_by", "PyTorch"}, {"imported_covers", "moment"}};
  DeviceAnalysis& device = example.analysis.devices[0];
  device.peak_reserved.bytes = device.peak_allocated.bytes + 4 * kGiB;
  const ReportInput input = example.input();
  EXPECT_FALSE(IsWorthReplay(input, device));
  const Verdict verdict = MakeVerdict(input);
  EXPECT_EQ(verdict.kind, VerdictKind::kUnknown);
  EXPECT_THAT(verdict.peak, EndsWith("when the snapshot was taken"));
  EXPECT_THAT(verdict.action, HasSubstr("_record_memory_history"));
}

TEST(Verdict, AFullDeviceIsSaidWithWhatFillsIt) {
  Example example = HealthyExample();
  testing::AddAttribution(&example);
  DeviceAnalysis& device = example.analysis.devices[0];
  device.capacity = device.peak_total.bytes + kGiB;
  const Verdict verdict = MakeVerdict(example.input());
  EXPECT_EQ(verdict.kind, VerdictKind::kNearlyFull);
  EXPECT_THAT(verdict.problem, StartsWith("1 GiB of "));
  EXPECT_THAT(verdict.action, Not(IsEmpty()));
}

// Where events are missing, nothing is claimed that they could refute.
TEST(Verdict, OfAPeakThatMayHaveBeenHigherIsNotKnown) {
  Example example = HealthyExample();
  example.analysis.losses.dropped_allocs = 5;
  example.analysis.devices[0].bound = PeakBound::kAtLeast;
  const Verdict verdict = MakeVerdict(example.input());
  EXPECT_EQ(verdict.kind, VerdictKind::kUnknown);
  EXPECT_THAT(verdict.peak, StartsWith("at least 36 GiB allocated, "));
  EXPECT_THAT(verdict.action, StartsWith("not known, events are missing: this program left at most 38 GiB of GPU 0"));
  example.analysis.devices[0].capacity = 43 * kGiB;
  EXPECT_THAT(MakeVerdict(example.input()).problem, StartsWith("at most 1 GiB of 43 GiB was left"));
}

TEST(Verdict, WhereTheOldestFilesAreGoneThePeakSaysSo) {
  Example example = HealthyExample();
  EXPECT_THAT(MakeVerdict(example.input()).peak, Not(HasSubstr("gone")));
  example.analysis.series.first_number = 18;
  example.analysis.series.events_before = 109'386;
  example.analysis.devices[0].bound = PeakBound::kAtLeast;
  const Verdict verdict = MakeVerdict(example.input());
  EXPECT_EQ(verdict.kind, VerdictKind::kUnknown);
  EXPECT_THAT(verdict.peak, HasSubstr("; before it 109,386 events are gone, perhaps a higher peak with them"));
}

TEST(Verdict, GrowthThatLostFreesMayHaveMadeIsNotKnown) {
  Example example = HealthyExample();
  testing::AddLeak(&example, 4 * kGiB);
  example.leaks.misses_events = true;
  const Verdict verdict = MakeVerdict(example.input());
  EXPECT_EQ(verdict.kind, VerdictKind::kUnknown);
  EXPECT_THAT(verdict.problem, StartsWith("not sure, events are missing: model.py:42 Block.forward keeps growing"));
}

TEST(Verdict, MoreThanTheDeviceHasIsNoPeak) {
  Example example = HealthyExample();
  example.analysis.devices[0].capacity = 41 * kGiB;
  const Verdict verdict = MakeVerdict(example.input());
  EXPECT_EQ(verdict.kind, VerdictKind::kUnknown);
  EXPECT_THAT(verdict.problem, StartsWith("42 GiB are counted on GPU 0, which has 41 GiB"));
}

// Whatever says most of what was held.
TEST(Verdict, WhatIsLeftIsWhatNothingHolds) {
  Example example = HealthyExample();
  DeviceAnalysis& device = example.analysis.devices[0];
  EXPECT_THAT(MakeVerdict(example.input()).action, HasSubstr("left 38 GiB of GPU 0 free"));
  device.use.peak_own = 50 * kGiB;
  EXPECT_THAT(MakeVerdict(example.input()).action, HasSubstr("left 30 GiB of GPU 0 free"));
  device.use.peak_own = 0;
  device.peak_reserved = device.peak_other = device.peak_total = {};
  device.peak_allocated.bytes = 79 * kGiB;
  EXPECT_THAT(MakeVerdict(example.input()).problem, StartsWith("1 GiB of 80 GiB was left"));
}

TEST(Verdict, AFailedRequestIsTheWorst) {
  Example example = testing::OomExample();
  const Verdict verdict = MakeVerdict(example.input());
  EXPECT_EQ(verdict.kind, VerdictKind::kOutOfMemory);
  EXPECT_THAT(verdict.problem, StartsWith("PyTorch asked for 2.50 GiB at 11.000 s"));
  EXPECT_THAT(verdict.action, HasSubstr("gpumemshim oom has the evidence"));
  example.analysis.ooms[0].final = false;  // served after a retry
  EXPECT_NE(MakeVerdict(example.input()).kind, VerdictKind::kOutOfMemory);
}

TEST(Verdict, OfATraceWithoutMemoryThereIsNone) {
  Example example;
  const Verdict verdict = MakeVerdict(example.input());
  EXPECT_EQ(verdict.kind, VerdictKind::kNothing);
  EXPECT_THAT(verdict.peak, IsEmpty());
  EXPECT_THAT(Overview(&example), HasSubstr("No GPU memory was allocated."));
  example.analysis.host_pinned_peak = 3 << 20;
  EXPECT_THAT(Overview(&example), HasSubstr("Pinned      3 MiB of host memory at most, no GPU memory"));
}

TEST(Overview, IsOneScreen) {
  for (Example example : {HealthyExample(), testing::SampledExample(), testing::OomExample()}) {
    testing::AddAttribution(&example);
    for (const int width : {60, 80, 120}) {
      const std::string text = Overview(&example, width);
      const std::vector<std::string> lines = absl::StrSplit(text, '\n');
      if (width >= 80) {
        EXPECT_LE(lines.size(), 34u) << text;  // 25, and what is wrong
      }
      for (const std::string& line : lines) EXPECT_LE(DisplayWidth(line), width) << line;
      EXPECT_THAT(text, HasSubstr("gpumemshim report --full"));
    }
  }
}

TEST(Overview, SaysFirstWhatIsNotWhole) {
  Example example = testing::OomExample();
  example.analysis.losses.dropped_allocs = 7;
  const std::string text = Overview(&example);
  EXPECT_LT(text.find("LOST"), text.find("OUT OF MEMORY"));
  EXPECT_THAT(text, HasSubstr("7 allocations dropped because the ring was full"));
  EXPECT_THAT(text, Not(HasSubstr("none dropped")));
}

TEST(Overview, SaysWhyEventsAreMissing) {
  Example example = HealthyExample();
  example.analysis.losses.unwritten_events = 3;
  example.analysis.losses.write_error = "No space left on device";
  example.analysis.devices[0].bound = PeakBound::kAtLeast;
  const std::string text = Overview(&example, 120);
  EXPECT_THAT(text, HasSubstr("3 events are missing (the file could not be written: No space left on device)"));
  EXPECT_THAT(text, HasSubstr("Peak        at least 36 GiB allocated"));
  EXPECT_THAT(text, HasSubstr(">= 36 GiB at "));
}

}  // namespace
}  // namespace gpumem

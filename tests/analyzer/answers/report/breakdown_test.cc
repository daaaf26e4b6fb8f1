// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "answers/parts/breakdown_parts.h"
#include "answers/report/sections.h"
#include "fixture.h"
#include "render/draw.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using testing::Example;
using ::testing::HasSubstr;
using testing::kGiB;
using testing::kMiB;
using testing::Native;
using ::testing::Not;
using testing::Python;

std::string Section(Example* example) {
  TextStyle style;
  style.width = 100;
  style.utf8 = true;
  const ReportInput input = example->input();
  Document answer;
  AddLimits(input, &answer);
  AddBreakdown(example->analysis.devices[0], input, &answer);
  return ToText(answer, style);
}

TEST(MemoryBreakdown, EachLineSaysWhatItRestsOn) {
  Example example = testing::SampledExample();
  const std::string text = Section(&example);
  EXPECT_THAT(text, HasSubstr("Reconciliation with nvidia-smi on GPU 0"));
  EXPECT_THAT(text, ::testing::ContainsRegex("PyTorch: allocated +36 GiB +5 GiB  measured"));
  EXPECT_THAT(text, ::testing::ContainsRegex("PyTorch: reserved, idle +10 GiB +41 GiB  measured"));
  EXPECT_THAT(text, ::testing::ContainsRegex("NCCL, asked by [^\n]+ +2 GiB +2 GiB  measured"));
  EXPECT_THAT(text, ::testing::ContainsRegex("CUDA context +512 MiB +512 MiB  measured"));
  EXPECT_THAT(text, ::testing::ContainsRegex("loaded modules \\(12\\) +256 MiB"));
  EXPECT_THAT(text, ::testing::ContainsRegex("not explained +1.25 GiB +1.25 GiB  unknown"));
  EXPECT_THAT(text, ::testing::ContainsRegex("= this process[^\n]+50 GiB +50 GiB  measured / derived"));
  EXPECT_THAT(text, HasSubstr("a guess What is not explained may be"));
}

TEST(MemoryBreakdown, NamesWhoElseIsThereAndWhatIsFree) {
  Example example = testing::SampledExample();
  const std::string text = Section(&example);
  EXPECT_THAT(text, HasSubstr("(pid 777)"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b[31m")));  // a name from outside cannot steer the terminal
  EXPECT_THAT(text, ::testing::ContainsRegex("in use by all processes +53 GiB"));
  EXPECT_THAT(text, ::testing::ContainsRegex("kept by the driver for itself +1 GiB"));
  EXPECT_THAT(text, ::testing::ContainsRegex("free +27 GiB"));
}

TEST(MemoryBreakdown, LimitsThatWereReached) {
  Example example = testing::SampledExample();
  const std::string text = Section(&example);
  EXPECT_THAT(text, HasSubstr("GPU 0 reached 60 % at 8.000 s: 53 GiB of 81 GiB, 50 GiB by this process."));
  EXPECT_THAT(text, HasSubstr("GPU 0 reached 50 GiB at 8.000 s: 53 GiB of 81 GiB."));
}

TEST(MemoryBreakdown, WithoutSamplesNothingIsSaid) {
  Example example = testing::TrainingExample();
  example.analysis.devices[0].breakdown_at_end.any = true;
  EXPECT_EQ(Section(&example), "");
}

TEST(MemoryBreakdown, WhyTheShareIsNotKnown) {
  Example example = testing::SampledExample();
  MemoryBreakdown& end = example.analysis.devices[0].breakdown_at_end;
  end.process = end.reading.own = kNotStated;
  end.reading.own_process = OwnProcessMatch::kUnknown;
  EXPECT_THAT(Section(&example), HasSubstr("no process on the device has this one's id"));
  end.reading.other_count = kNotStated;
  EXPECT_THAT(Section(&example), HasSubstr("does not list its processes"));
  end.has_reading = false;
  example.analysis.sampling.source_error = "NVML does not start: no driver (9)";
  EXPECT_THAT(Section(&example), HasSubstr("NVML does not start: no driver (9)"));
}

TEST(MemoryBreakdown, ThePartsAddUp) {
  Example example = testing::SampledExample();
  const auto answer = nlohmann::json::parse(testing::ReportJson(example.input()));
  for (const char* instant : {"at_peak", "at_end"}) {
    const auto& breakdown = answer["devices"][0]["breakdown"][instant];
    int64_t sum = breakdown["unexplained_bytes"].get<int64_t>();
    for (const auto& part : breakdown["parts"]) sum += part["bytes"].get<int64_t>();
    EXPECT_EQ(sum, breakdown["process_bytes"].get<int64_t>()) << instant;
  }
}

TEST(MemoryBreakdown, LibrariesByTheirInnermostFrame) {
  const ResolvedFrame cudart = Native("cudaMalloc", "/x/libcudart.so.12"), own = Native("f", "/home/me/app");
  EXPECT_EQ(LibraryOf({cudart, Native("g", "/x/libcublasLt.so.12"), own}), "cuBLAS");
  EXPECT_EQ(LibraryOf({Native("a", "/x/libnccl.so.2"), Native("g", "/x/libtorch_cuda.so")}), "NCCL");
  EXPECT_EQ(LibraryOf({cudart, Native("g", "/x/libc10_cuda.so")}), "PyTorch past its cache");
  EXPECT_EQ(LibraryOf({cudart, own, Native("g", "/x/libcublas.so.12")}), "the program");
  EXPECT_EQ(LibraryOf({Python("f", "a.py", 1), Native("g", "/x/libnccl.so.2")}), "the program");
  EXPECT_EQ(LibraryOf({}), "the program");
}

// A use of the example's stack in NCCL, by a thread, for a communicator.
StackUse OfNccl(const Example& example, uint64_t bytes, uint32_t thread, uint32_t communicator) {
  StackUse use = example.analysis.devices[0].breakdown_at_peak.other.at(0);
  use.bytes = bytes;
  use.count = 1;
  use.thread = thread;
  use.communicator = communicator;
  return use;
}

TEST(MemoryBreakdown, EachCommunicatorIsAPart) {
  Example example = testing::SampledExample();
  MemoryBreakdown& peak = example.analysis.devices[0].breakdown_at_peak;
  peak.other = {OfNccl(example, 600 * kMiB, 1, 1), OfNccl(example, 300 * kMiB, 7, 1), OfNccl(example, 400 * kMiB, 1, 2),
                OfNccl(example, 100 * kMiB, 1, 0)};
  example.analysis.communicators = {{1, 8, 3, 0}, {2, 0, -1, 0}};
  const std::vector<LibraryPart> parts = LibraryParts(peak, example.input());
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].label, "NCCL communicator 1 (rank 3 of 8)");
  EXPECT_EQ(parts[0].bytes, 900 * kMiB);
  EXPECT_EQ(parts[1].label, "NCCL communicator 2");
  EXPECT_EQ(parts[1].bytes, 400 * kMiB);
  EXPECT_THAT(parts[2].label, ::testing::StartsWith("NCCL, asked by "));
  EXPECT_EQ(parts[2].bytes, 100 * kMiB);
  EXPECT_EQ(LibraryTitle(parts, "NCCL"), "NCCL (2 communicators)");
}

TEST(MemoryBreakdown, AHandleIsThatOfAThread) {
  Example example = testing::SampledExample();
  MemoryBreakdown& peak = example.analysis.devices[0].breakdown_at_peak;
  peak.other = {OfNccl(example, 64 * kMiB, 1, 0), OfNccl(example, 64 * kMiB, 2, 0), OfNccl(example, 64 * kMiB, 3, 0),
                OfNccl(example, 64 * kMiB, 4, 0)};
  peak.threads = {
      {1, {example.analysis.process.pid, "python"}}, {2, {9, "pt_autograd_0"}}, {3, {10, "python"}}, {4, {11, "w"}}};
  std::vector<std::string> labels;
  const std::vector<LibraryPart> parts = LibraryParts(peak, example.input());
  for (const LibraryPart& part : parts) labels.push_back(part.label.substr(part.label.find("setup")));
  EXPECT_THAT(labels, ::testing::UnorderedElementsAre("setup", "setup in PyTorch's backward thread",
                                                      "setup in 2 other threads"));
  EXPECT_EQ(LibraryTitle(parts, "NCCL"), "NCCL (4 threads)");
}

TEST(MemoryBreakdown, ManyCommunicatorsAreTheLargestAndTheRest) {
  Example example = testing::SampledExample();
  MemoryBreakdown& peak = example.analysis.devices[0].breakdown_at_peak;
  const StackUse use = peak.other.at(0);
  peak.other.clear();
  for (uint32_t i = 1; i <= 20; ++i) {
    peak.other.push_back(use);
    peak.other.back().bytes = i * kMiB;
    peak.other.back().communicator = i;
  }
  const std::vector<LibraryPart> parts = LibraryParts(peak, example.input());
  ASSERT_EQ(parts.size(), 9u);
  EXPECT_EQ(parts[0].communicator, 20u);
  EXPECT_EQ(parts[8].label, "NCCL, 12 more communicators");
  EXPECT_EQ(parts[8].bytes, 78 * kMiB);
  EXPECT_EQ(LibraryTitle(parts, "NCCL"), "NCCL (20 communicators)");
}

TEST(MemoryBreakdown, GuessesOnlyAtWhatMatters) {
  Analysis analysis;
  MemoryBreakdown breakdown;
  EXPECT_EQ(GuessAtRest(breakdown, analysis), "");  // not known at all
  breakdown.process = 10 * kGiB;
  breakdown.unexplained = static_cast<int64_t>(3 * kMiB);
  EXPECT_EQ(GuessAtRest(breakdown, analysis), "");
  breakdown.unexplained = static_cast<int64_t>(400 * kMiB);
  EXPECT_THAT(GuessAtRest(breakdown, analysis), HasSubstr("CUDA context"));
  breakdown.driver.contexts = 500 * kMiB;
  EXPECT_THAT(GuessAtRest(breakdown, analysis), HasSubstr("loaded lazily"));
  breakdown.managed = kGiB;
  EXPECT_THAT(GuessAtRest(breakdown, analysis), HasSubstr("managed memory"));
  analysis.losses.dropped_allocs = 1;
  EXPECT_THAT(GuessAtRest(breakdown, analysis), HasSubstr("lost"));
  breakdown.unexplained = -static_cast<int64_t>(400 * kMiB);
  EXPECT_THAT(GuessAtRest(breakdown, analysis), HasSubstr("frees that were lost"));
}

}  // namespace
}  // namespace gpumem

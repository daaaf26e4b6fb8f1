// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/oom/oom_story.h"

#include <gmock/gmock.h>

#include "absl/strings/str_split.h"
#include "answers/report/sections.h"
#include "base/utf8.h"
#include "fixture.h"
#include "render/draw.h"
#include "testing/sizes.h"

namespace gpumem {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::Example;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kGiB;
using testing::kMiB;
using ::testing::Not;
using ::testing::StartsWith;

std::string Explained(Example* example, int width = 100) {
  TextStyle style;
  style.width = width;
  const ReportInput input = example->input();
  Document answer;
  AddOomExplanation(input, nullptr, TextOptions{Detail::kFull}, &answer);
  return ToText(answer, style);
}

auto Action(const char* words) { return Field(&OomAction::action, HasSubstr(words)); }
auto Action(const char* words, const char* evidence) {
  return AllOf(Action(words), Field(&OomAction::evidence, HasSubstr(evidence)));
}

// The device stated its free memory.
OomEvent* Stated(Example* example, uint64_t free_bytes) {
  OomEvent* const oom = &example->analysis.ooms[0];
  oom->device_stated = true;
  oom->device_free = free_bytes;
  return oom;
}

TEST(OomExplanation, TellsEveryPart) {
  Example example = testing::OomExample();
  Stated(&example, 700 * kMiB);
  const std::string text = Explained(&example);
  EXPECT_THAT(text, HasSubstr("OUT OF MEMORY  GPU 0 at 11.000 s: PyTorch asked for 2.50 GiB"));
  EXPECT_THAT(text, HasSubstr("74 GiB   92 %  PyTorch's blocks"));
  EXPECT_THAT(text, HasSubstr("324 MiB  0.4 %  not seen here"));
  EXPECT_THAT(text, HasSubstr("700 MiB  0.9 %  free, as the device said"));
  EXPECT_THAT(text, HasSubstr("cudaMalloc of 2.50 GiB failed"));
  EXPECT_THAT(text, HasSubstr("256 MiB given back to CUDA by 2 calls of cudaFree"));
  EXPECT_THAT(text, HasSubstr("+4.0 ms  PyTorch gave up"));
  EXPECT_THAT(text, HasSubstr("712 MiB  at most, as it was"));
  EXPECT_THAT(text, HasSubstr("3 GiB  estimate"));
  EXPECT_THAT(text, HasSubstr("Blocks that keep mostly empty segments  1.07 GiB would go back without them"));
  EXPECT_THAT(text, HasSubstr("40 requests were served only after 12 GiB"));
}

TEST(OomExplanation, FitsEveryTerminal) {
  for (const int width : {40, 60, 80, 200}) {
    Example example = testing::OomExample();
    for (const absl::string_view line : absl::StrSplit(Explained(&example, width), '\n')) {
      EXPECT_LE(DisplayWidth(line), width) << line;
    }
  }
}

TEST(OomExplanation, OnAutogradsThreadNamesTheLastLineOfPython) {
  Example example = testing::OomExample();
  EXPECT_THAT(Explained(&example), Not(HasSubstr("autograd's own")));
  example.analysis.ooms[0].stack_id = testing::kBackward;
  const std::string text = Explained(&example);
  EXPECT_THAT(text, HasSubstr("asked by  backward of AddmmBackward0"));
  EXPECT_THAT(text, HasSubstr("A thread of autograd's own, without Python frames"));
  EXPECT_THAT(text, HasSubstr("The newest live block from a line of Python was made 2.000 s before:\n"
                              "            model.py:42 Block.forward"));
}

TEST(OomExplanation, SaysWhereNothingFailed) {
  Example example = testing::TrainingExample();
  EXPECT_EQ(Explained(&example), "No request for memory failed in this trace.\n");
}

TEST(OomExplanation, SaysWherePyTorchCountsOtherwise) {
  Example example = testing::OomExample();
  OomEvent& oom = example.analysis.ooms[0];
  oom.torch_stated = true;
  oom.torch_allocated = oom.values.allocated;
  oom.torch_reserved = oom.values.reserved;
  EXPECT_THAT(Explained(&example), Not(HasSubstr("PyTorch itself counted")));
  oom.torch_reserved += kGiB;
  EXPECT_THAT(Explained(&example), HasSubstr("PyTorch itself counted 74 GiB allocated and 78 GiB reserved"));
}

TEST(OomExplanation, OfHostMemoryHasNoDevice) {
  Example example = testing::OomExample();
  OomEvent& oom = example.analysis.ooms[0];
  oom.device = -1;
  oom.layer = 2;
  oom.api = "cudaHostAlloc";
  const std::string text = Explained(&example);
  EXPECT_THAT(text, HasSubstr("OUT OF MEMORY  the host at 11.000 s: cudaHostAlloc asked for 2.50 GiB"));
  EXPECT_THAT(text, Not(HasSubstr("Where the memory was")));
  EXPECT_THAT(text, HasSubstr("ulimit -l"));
}

TEST(CauseOfOom, LittleIdleMemoryIsNoFragmentation) {
  Example example = testing::OomExample();
  OomEvent& oom = example.analysis.ooms[0];
  oom.requested = 16 * kMiB;
  oom.would_have_fit = 12 * kMiB;
  oom.fragmentation = {.reserved = 77 * kGiB, .free = 25 * kMiB, .largest_free_range = 12 * kMiB, .free_ranges = 4};
  EXPECT_THAT(CauseOfOom(oom, example.input()), Not(HasSubstr("Fragmentation")));
  oom.fragmentation.free = 24 * kGiB;
  EXPECT_THAT(CauseOfOom(oom, example.input()), HasSubstr("Fragmentation: enough was free"));
}

// 5 MiB of tensors lie in what would otherwise go back to CUDA, but that is not what is wrong.
TEST(CauseOfOom, ARequestForNearlyAllIsTooLarge) {
  Example example = testing::OomExample();
  OomEvent* const oom = Stated(&example, 77 * kGiB);
  oom->values = {5 * kMiB, kGiB, 0, kGiB};
  oom->requested = 78 * kGiB;
  oom->would_have_fit = 77 * kGiB;
  EXPECT_THAT(CauseOfOom(*oom, example.input()), HasSubstr("The request alone takes 78 GiB of the 78"));
  const auto actions = ActionsOnOom(*oom, example.input());
  ASSERT_GE(actions.size(), 2u);
  EXPECT_THAT(actions[0], Action("make the request smaller", "78 GiB asked of a device of 80 GiB"));
  EXPECT_THAT(actions[1], Action("free 1 GiB before this request"));
  oom->requested = 60 * kGiB;
  EXPECT_THAT(CauseOfOom(*oom, example.input()), Not(HasSubstr("The request alone")));
}

TEST(CauseOfOom, NamesOthersOnTheDevice) {
  Example example = testing::OomExample();
  OomEvent* const oom = Stated(&example, kGiB);
  oom->requested = 5 * kGiB;
  oom->values = {20 * kGiB, 21 * kGiB, kGiB, 22 * kGiB};
  EXPECT_THAT(CauseOfOom(*oom, example.input()), HasSubstr("Others fill the device: 57 GiB"));
  EXPECT_THAT(ActionsOnOom(*oom, example.input()), Contains(Action("nvidia-smi", "57 GiB of the device")));
}

TEST(CauseOfOom, SaysHowMuchIsMissingOnlyWhereItIsKnown) {
  Example example = testing::OomExample();
  OomEvent* const oom = Stated(&example, 700 * kMiB);
  oom->fragmentation = {};
  oom->would_have_fit = oom->requested - kGiB;
  EXPECT_THAT(CauseOfOom(*oom, example.input()), HasSubstr("1 GiB less somewhere below"));
  EXPECT_THAT(ActionsOnOom(*oom, example.input()), Contains(Action("free 1 GiB before this request")));
  oom->would_have_fit = oom->requested - 1;  // bounded by the refusal alone
  EXPECT_EQ(MissingBytes(*oom), 0u);
  EXPECT_THAT(CauseOfOom(*oom, example.input()), StartsWith("The device was full of live memory"));
  EXPECT_THAT(ActionsOnOom(*oom, example.input()), Not(Contains(Action("before this request, or ask for"))));
}

TEST(CauseOfOom, NamesALimit) {
  Example example = testing::OomExample();
  OomEvent* const oom = Stated(&example, 10 * kGiB);
  oom->limited = true;
  EXPECT_THAT(CauseOfOom(*oom, example.input()), HasSubstr("The program limits what PyTorch may reserve ("));
  const auto actions = ActionsOnOom(*oom, example.input());
  ASSERT_FALSE(actions.empty());
  EXPECT_THAT(actions[0], Action("set_per_process_memory_fraction", "77 GiB reserved"));
}

TEST(ActionsOnOom, RecommendExpandableSegmentsWhereTheyWouldHelp) {
  Example example = testing::OomExample();
  OomEvent& oom = example.analysis.ooms[0];
  EXPECT_THAT(ActionsOnOom(oom, example.input()), Contains(Action("expandable_segments:True", "3 GiB")));
  oom.expandable_segments = true;
  EXPECT_THAT(ActionsOnOom(oom, example.input()), Not(Contains(Action("PYTORCH_CUDA_ALLOC_CONF"))));
}

TEST(ActionsOnOom, NamePoolsThatAreKept) {
  Example example = testing::OomExample();
  OomEvent& oom = example.analysis.ooms[0];
  EXPECT_THAT(ActionsOnOom(oom, example.input()), Not(Contains(Action("MemPool"))));
  oom.whole_segments = 3;
  oom.whole_segment_bytes = kGiB;
  EXPECT_THAT(ActionsOnOom(oom, example.input()), Contains(Action("MemPool", "1 GiB lay in 3 segments")));
}

TEST(ActionsOnOom, NameWhatGrows) {
  Example example = testing::OomExample();
  const OomEvent& oom = example.analysis.ooms[0];
  EXPECT_THAT(ActionsOnOom(oom, example.input()), Not(Contains(Action("gpumemshim leaks"))));
  testing::AddLeak(&example, 20 * kGiB);
  EXPECT_THAT(ActionsOnOom(oom, example.input()),
              Contains(Action("gpumemshim leaks", "model.py:42 Block.forward keeps growing")));
}

TEST(ActionsOnOom, NothingIsAdvisedWhoseSavingWasNotCounted) {
  Example example = testing::OomExample();
  for (const char* advice : {"checkpoint", "batch", "FSDP", "data type"})
    EXPECT_THAT(ActionsOnOom(example.analysis.ooms[0], example.input()), Not(Contains(Action(advice)))) << advice;
}

TEST(ActionsOnOom, OfServedRetriesAreAboutTheEdge) {
  Example example = testing::OomExample();
  example.analysis.ooms[0].final = false;
  EXPECT_THAT(ActionsOnOom(example.analysis.ooms[0], example.input()), Contains(Action("at the edge", "40 requests")));
}

TEST(GroupOoms, PutsASearchIntoOneLine) {
  Example example = testing::OomExample();
  std::vector<OomEvent>& ooms = example.analysis.ooms;
  for (uint64_t i = 1; i < 20; ++i) {
    ooms.push_back(ooms[0]);
    ooms.back().requested -= i * kMiB;
    ooms.back().time_ns += i;
  }
  ooms.push_back(ooms[0]);
  ooms.back().stack_id = testing::kOptimizer;
  const std::vector<OomGroup> groups = GroupOoms(ooms, &ooms[19], example.input());
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].count, 19u);
  EXPECT_EQ(groups[0].largest, 2560 * kMiB);
  EXPECT_EQ(groups[0].smallest, 2542 * kMiB);
  EXPECT_EQ(groups[0].site, "model.py:42 Block.forward");
  EXPECT_EQ(groups[1].count, 1u);
}

TEST(OomToExplain, IsTheLastThatWasFinal) {
  std::vector<OomEvent> ooms(3);
  EXPECT_EQ(OomToExplain({}), nullptr);
  ooms[2].final = false;
  EXPECT_EQ(OomToExplain(ooms), &ooms[1]);
  ooms[0].final = ooms[1].final = false;
  EXPECT_EQ(OomToExplain(ooms), &ooms[2]);
}

}  // namespace
}  // namespace gpumem

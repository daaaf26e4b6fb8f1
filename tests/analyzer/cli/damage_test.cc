// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// A damaged trace as users meet it: every command says so, goes on behind the damage, and ends with 4; and no flipped
// bit makes an answer that differs from the whole file's without a word.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "program.h"
#include "replay/analyze.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::kSegment;
using testing::Outcome;
using testing::RunGpumem;
using testing::TraceBuilder;

struct Example {
  std::string bytes;
  size_t hole_from = 0, hole_to = 0;  // packets with 30 frees
};

Example MakeExample() {
  TraceBuilder trace(10);
  trace.Compress(trace::CODEC_LZ4_BLOCK);
  trace.Device(0, "Test GPU", 1ull << 30);
  const uint64_t stack = trace.PythonStack({{"step", "/job/train.py", 12}, {"<module>", "/job/train.py", 40}});
  trace.CudaAlloc(kSegment, 64 << 20, stack);
  for (uint64_t i = 0; i < 59; ++i) trace.TorchAlloc(kSegment + i * 4096, 4096, stack);
  Example example;
  example.hole_from = trace.Bytes().size();
  for (uint64_t i = 0; i < 30; ++i) trace.TorchFree(kSegment + i * 4096, 4096);
  example.hole_to = trace.Bytes().size();
  for (uint64_t i = 0; i < 20; ++i) trace.TorchAlloc(kSegment + (100 + i) * 4096, 4096, stack);
  trace::Counters counters;
  counters.set_time_ns(trace.time_ns());
  trace::DeviceCounters* const device = counters.add_devices();
  device->set_torch_allocated_bytes(49 * 4096);
  device->set_torch_reserved_bytes(64 << 20);
  trace.Counters(counters);
  for (uint64_t i = 0; i < 5; ++i) trace.TorchAlloc(kSegment + (200 + i) * 4096, 4096, stack);
  example.bytes = trace.End().Bytes();
  return example;
}

class DamagedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::MakeFolder();
    Example example = MakeExample();
    example.bytes.replace(example.hole_from + 1, example.hole_to - example.hole_from - 1,
                          example.hole_to - example.hole_from - 1, '\0');
    testing::WriteFile(folder_ + "/hole.gmtrace", example.bytes);
  }
  std::string folder_;
};

TEST_F(DamagedTest, EveryCommandSaysSo) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{{"report"},
                                                                                       {"peak"},
                                                                                       {"leaks"},
                                                                                       {"timeline"},
                                                                                       {"fragmentation"},
                                                                                       {"info"},
                                                                                       {"tree"},
                                                                                       {"table"},
                                                                                       {"sizes"},
                                                                                       {"table", "--by", "stack"},
                                                                                       {"flame", "-o", "flame.html"},
                                                                                       {"html", "-o", "page.html"},
                                                                                       {"steps"},
                                                                                       {"stages"},
                                                                                       {"modules"},
                                                                                       {"model"},
                                                                                       {"oom"},
                                                                                       {"explain"},
                                                                                       {"at", "50us"}}) {
    std::vector<std::string> arguments = command;
    arguments.push_back("hole.gmtrace");
    const Outcome text = RunGpumem(arguments, folder_);
    EXPECT_EQ(text.exit_code, 4) << command[0] << text.err;
    EXPECT_THAT(text.err, HasSubstr("3 packets with 30 events between 59 us and 90 us")) << command[0];
    EXPECT_THAT(text.err, HasSubstr("numbers are unsure")) << command[0];
    if (command[0] == "flame" || command[0] == "html") continue;
    arguments.insert(arguments.begin() + 1, "--json");
    const Outcome machine = RunGpumem(arguments, folder_);
    EXPECT_EQ(machine.exit_code, 4) << command[0];
    const json answer = json::parse(machine.out);
    EXPECT_THAT(answer["damage"].get<std::string>(), HasSubstr("reading went on at byte")) << command[0];
    EXPECT_FALSE(answer["unsure_from_ns"].is_null()) << command[0];
    EXPECT_EQ(answer["gaps"][0]["events"], 30) << command[0];
    EXPECT_EQ(answer["losses"]["missing_packets"], 3) << command[0];
  }
  EXPECT_THAT(RunGpumem({"report", "hole.gmtrace"}, folder_).out, HasSubstr("DAMAGED"));
}

TEST_F(DamagedTest, NumbersBehindTheGapArePyTorchs) {
  const json answer = json::parse(RunGpumem({"report", "--json", "hole.gmtrace"}, folder_).out);
  EXPECT_EQ(answer["devices"][0]["peak"]["allocated_bytes"], 59 * 4096);
  EXPECT_EQ(answer["devices"][0]["end"]["allocated_bytes"], 54 * 4096);
}

TEST_F(DamagedTest, DumpsAndCopiesGoOnBehindIt) {
  const Outcome dump = RunGpumem({"export", "events", "hole.gmtrace"}, folder_);
  EXPECT_EQ(dump.exit_code, 4);
  EXPECT_THAT(dump.err, HasSubstr("reading went on at byte"));
  const Outcome copy = RunGpumem({"export", "trace", "--names", "-o", "copy.gmtrace", "hole.gmtrace"}, folder_);
  EXPECT_EQ(copy.exit_code, 4);
  const Outcome again = RunGpumem({"report", "--json", "copy.gmtrace"}, folder_);
  EXPECT_EQ(again.exit_code, 4) << "the copy is no better";
  EXPECT_EQ(json::parse(again.out)["losses"]["missing_events"], 30);
}

// What an answer says, apart from the file's path.
std::string Say(const Analysis& analysis) {
  std::string text;
  for (const DeviceAnalysis& device : analysis.devices) {
    absl::StrAppend(&text, device.device, " ", device.name, " ", device.peak_allocated.bytes, " ",
                    device.peak_reserved.bytes, " ", device.end.allocated, " ", device.end.reserved, " ",
                    device.leaks.unknown_frees, " ", device.leaks.at_end_torch.bytes, "\n");
    for (const StackUse& use : device.at_peak_allocated.stacks)
      absl::StrAppend(&text, use.stack_id, " ", use.bytes, "\n");
  }
  absl::StrAppend(&text, analysis.events.torch, " ", analysis.events.runtime, " ", analysis.complete);
  return text;
}

TEST(FlippedBit, NeverChangesAnAnswerUnsaid) {
  const std::string whole = MakeExample().bytes;
  const std::string path = testing::MakeFolder() + "/flipped.gmtrace";
  testing::WriteFile(path, whole);
  const absl::StatusOr<Analysis> truth = Analyze(path);
  ASSERT_TRUE(truth.ok() && truth->damage.empty());
  const std::string reported = Say(*truth);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    testing::WriteFile(path, changed);
    const absl::StatusOr<Analysis> flipped = Analyze(path);
    ASSERT_TRUE(!flipped.ok() || !flipped->damage.empty() || Say(*flipped) == reported)
        << "bit " << bit % 8 << " of byte " << bit / 8;
    ASSERT_TRUE(flipped.ok()) << "bit " << bit;
    ASSERT_GE(flipped->events.torch + 10, truth->events.torch) << "bit " << bit;
  }
}

}  // namespace
}  // namespace gpumem

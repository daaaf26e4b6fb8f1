// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/serve/live_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

namespace gpumem {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

LiveProcess Process(const std::string& file, const std::string& program) {
  LiveProcess process;
  process.file = file;
  process.process.program = program;
  process.state = LiveProcess::State::kRunning;
  process.now_ns = 1'500'000'000;
  process.events = 7;
  LiveDevice device;
  device.device = 1;
  device.capacity = 1000;
  device.now.allocated = 40;
  device.now.reserved = 60;
  device.peak.allocated = 50;
  process.devices.push_back(device);
  process.device = 1;
  process.categories[static_cast<size_t>(Category::kParameter)] = 30;
  return process;
}

TEST(LiveMetricsTest, SaysWhatAFrameSays) {
  LiveFrame frame;
  frame.processes = {Process("runs/a.gmtrace", "train")};
  frame.processes[0].process.rank = 3;
  const std::string text = LiveMetrics(frame);
  const std::string common = R"({program="train",trace="a.gmtrace",rank="3")";
  EXPECT_THAT(text, HasSubstr("gpumemshim_allocated_bytes" + common + R"(,device="1"} 40)"));
  EXPECT_THAT(text, HasSubstr("gpumemshim_peak_allocated_bytes" + common + R"(,device="1"} 50)"));
  EXPECT_THAT(text, HasSubstr("gpumemshim_category_bytes" + common + R"(,device="1",category="parameter"} 30)"));
  EXPECT_THAT(text, HasSubstr("gpumemshim_recorded_seconds" + common + "} 1.500000000"));
  EXPECT_THAT(text, HasSubstr("gpumemshim_running" + common + "} 1"));
  EXPECT_THAT(text, Not(HasSubstr("gpumemshim_device_used_bytes{"))) << "what nobody said is left out";
  EXPECT_THAT(text, Not(HasSubstr("gpumemshim_step_peak_bytes{")));
  EXPECT_THAT(text, EndsWith("# EOF\n"));
}

// What Prometheus demands of a text: each metric is described once, in front of its samples; no sample is there twice.
TEST(LiveMetricsTest, IsWellFormedForManyProcesses) {
  LiveFrame frame;
  frame.processes = {Process("a.gmtrace", "train"), Process("b.gmtrace", "train"),
                     Process("c.gmtrace", "e\"vil\\\n# EOF\x1b[31m")};
  std::istringstream lines(LiveMetrics(frame));
  std::set<std::string> described, samples;
  std::string line, current;
  bool ended = false;
  while (std::getline(lines, line)) {
    EXPECT_FALSE(ended) << line;
    ended = line == "# EOF";
    if (line.substr(0, 7) == "# TYPE ") {
      current = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(described.insert(current).second) << current;
    }
    if (line[0] == '#') continue;
    EXPECT_EQ(line.substr(0, current.size() + 1), current + "{");
    EXPECT_TRUE(samples.insert(line.substr(0, line.rfind(' '))).second) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
  }
  EXPECT_TRUE(ended);
}

TEST(LiveMetricsTest, IsEmptyWithoutProcesses) { EXPECT_THAT(LiveMetrics(LiveFrame()), EndsWith("# EOF\n")); }

}  // namespace
}  // namespace gpumem

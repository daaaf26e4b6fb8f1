// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Whole answers of the real program, compared with tests/golden/. To write them anew after an intended change:
// tests/golden/regenerate.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "program.h"
#include "testing/sizes.h"
#include "testing/trace_builder.h"

namespace gpumem {
namespace {

using testing::kMiB;
using testing::kSegment;

constexpr uint64_t kSecond = 1'000'000'000;

// A short training that leaks, fragments, and dies of an out-of-memory error.
std::string OomTrace() {
  testing::TraceBuilder trace;
  trace.header().set_program("train");
  trace.header().set_working_directory("/job");
  trace.header().set_pid(4242);
  trace.header().set_hostname("host");
  trace.header().set_anchor_realtime_ns(1'773'500'965'000'000'000);
  trace.Device(0, "Test GPU", 64 * kMiB).Version("torch", "2.11.0").Version("python", "3.11.7 (main)");
  const std::string torch = "/v/lib/python3.11/site-packages/torch/nn/modules/linear.py";
  const uint64_t forward = trace.PythonStack(
      {{"Linear.forward", torch, 134}, {"Block.forward", "/job/model.py", 42}, {"<module>", "/job/train.py", 9}});
  const uint64_t leak = trace.PythonStack({{"remember", "/job/train.py", 7}, {"<module>", "/job/train.py", 9}});
  uint64_t time = 10 * kSecond;
  trace.AtTime(time).CudaAlloc(kSegment, 20 * kMiB, forward).CudaAlloc(kSegment + 32 * kMiB, 20 * kMiB, leak);
  for (uint64_t step = 0; step < 8; ++step) {
    trace.AtTime(time += kSecond).TorchAlloc(kSegment, 12 * kMiB, forward);
    trace.AtTime(time += kSecond / 100).TorchAlloc(kSegment + 32 * kMiB + 2 * step * kMiB, kMiB, leak);
    trace.AtTime(time += kSecond / 100).TorchFree(kSegment, 12 * kMiB);
  }
  EventRow failed;
  failed.time_ns = time + kSecond;
  failed.kind = trace::ALLOC_FAILED;
  failed.layer = trace::TORCH;
  failed.device = 0;
  failed.size = 30 * kMiB;
  failed.stack = forward;
  failed.thread = 1;
  trace.Event(failed).End();
  return trace.Bytes();
}

struct Case {
  const char* file;
  std::vector<std::string> arguments;
};

class GoldenTest : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenTest, IsAsCheckedIn) {
  const std::string folder = testing::MakeFolder();
  testing::WriteFile(folder + "/run.gmtrace", OomTrace());
  const testing::Outcome outcome = testing::RunGpumem(GetParam().arguments, folder, {{"COLUMNS", "100"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string path = std::string(GPUMEM_GOLDEN_FOLDER) + "/" + GetParam().file;
  if (getenv("GPUMEMSHIM_UPDATE_GOLDEN") != nullptr) testing::WriteFile(path, outcome.out);
  std::ifstream file(path, std::ios::binary);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(outcome.out, expected.str()) << "run tests/golden/regenerate after an intended change";
}

INSTANTIATE_TEST_SUITE_P(
    All, GoldenTest,
    ::testing::Values(Case{"report.txt", {"report", "run.gmtrace"}},
                      Case{"report_full.txt", {"report", "--full", "run.gmtrace"}},
                      Case{"report.json", {"report", "--json", "run.gmtrace"}},
                      Case{"timeline.txt", {"timeline", "run.gmtrace"}}, Case{"peak.txt", {"peak", "run.gmtrace"}},
                      Case{"peak.json", {"peak", "--json", "run.gmtrace"}}, Case{"leaks.txt", {"leaks", "run.gmtrace"}},
                      Case{"flame.json", {"flame", "--json", "run.gmtrace"}}, Case{"tree.txt", {"tree", "run.gmtrace"}},
                      Case{"tree_leaks.json", {"tree", "--leaks", "--json", "run.gmtrace"}},
                      Case{"table.txt", {"table", "run.gmtrace"}},
                      Case{"table_temporary.txt", {"table", "--temporary", "--by", "stack", "run.gmtrace"}},
                      Case{"sizes.txt", {"sizes", "run.gmtrace"}},
                      Case{"sizes.json", {"sizes", "--measure", "reserved", "--json", "run.gmtrace"}},
                      Case{"export_collapsed.txt", {"export", "collapsed", "--total", "run.gmtrace"}},
                      Case{"fragmentation.txt", {"fragmentation", "--no-replay", "run.gmtrace"}},
                      Case{"export_events.txt", {"export", "events", "run.gmtrace"}}),
    [](const auto& each) {
      std::string name = each.param.file;
      name[name.find('.')] = '_';
      return name;
    });

}  // namespace
}  // namespace gpumem

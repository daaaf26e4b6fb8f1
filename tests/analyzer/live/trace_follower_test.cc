// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/trace_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "ledger/load/attribute.h"
#include "live/live_job.h"
#include "testing/sizes.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

using testing::Call;
using testing::Code;
using testing::kMiB;
using testing::TrainingTrace;

constexpr uint64_t kAt = 0x7f0000000000;

// Steps of 10 ms that each keep a block, with parameters, and a packet for every few events.
std::string Training(int steps, bool ends = true) {
  TrainingTrace trace;
  testing::TraceBuilder& builder = trace.builder();
  builder.Device(0, "GPU", uint64_t{1} << 30);
  const uint32_t model = trace.Root("Net"), layer = trace.Module(model, "mlp", "MLP"),
                 optimizer = trace.Optimizer("SGD");
  const uint64_t forward = trace.Stack(
      {Code("MLP.forward", "/job/model.py", 7), Call(layer), Call(model), Code("<module>", "/job/train.py", 9)});
  const uint64_t cached = trace.Stack({Code("remember", "/job/serve.py", 88), Code("<module>", "/job/train.py", 9)});
  builder.CudaAlloc(kAt, 900 * kMiB, forward);
  for (int step = 0; step < steps; ++step) {
    builder.TorchAlloc(kAt, 50 * kMiB, forward).TorchFree(kAt, 50 * kMiB);
    builder.TorchAlloc(kAt + (64 + static_cast<uint64_t>(step) * 8) * kMiB, 4 * kMiB, cached);
    builder.AtTime(builder.time_ns() + 10'000'000);
    trace.StepBegins(optimizer).StepEnds(optimizer);
    builder.FlushBatch();
  }
  if (ends) builder.End();
  return builder.WriteTemporary();
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// A file that a test lets grow.
class GrowingFile {
 public:
  explicit GrowingFile(const std::string& name) : path_(::testing::TempDir() + "/" + name) {
    std::filesystem::remove(path_);
  }
  ~GrowingFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  void Append(const std::string& bytes) {
    std::ofstream file(path_, std::ios::binary | std::ios::app);
    file << bytes;
  }

 private:
  std::string path_;
};

std::unique_ptr<TraceFollower> OpenOrDie(const std::string& path) {
  absl::StatusOr<std::unique_ptr<TraceFollower>> opened = TraceFollower::Open(path, {});
  EXPECT_TRUE(opened.ok()) << opened.status();
  return opened.ok() ? *std::move(opened) : nullptr;
}

// What `gpumemshim report` and `gpumemshim at end` say of the file as it is now.
void ExpectAsReported(const std::string& path, const LiveProcess& live) {
  LoadRequest request;
  request.place = path;
  const auto loaded = LoadTrace(request);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  AttributionRequest end;
  end.moments = {MomentQuery{MomentQuery::Kind::kTime, UINT64_MAX - 1, ""}};
  end.steps = true;
  const auto attribution = AttributeLoaded(end, "", loaded->get());
  ASSERT_TRUE(attribution.ok()) << attribution.status();
  const Analysis& analysis = (*loaded)->analysis;
  EXPECT_EQ(live.events, analysis.events.torch + analysis.events.runtime + analysis.events.driver);
  ASSERT_EQ(live.devices.size(), analysis.devices.size());
  for (size_t i = 0; i < live.devices.size(); ++i) {
    const DeviceAnalysis& reported = analysis.devices[i];
    EXPECT_EQ(live.devices[i].now.allocated, reported.end.allocated);
    EXPECT_EQ(live.devices[i].now.reserved, reported.end.reserved);
    EXPECT_EQ(live.devices[i].now.other, reported.end.other);
    EXPECT_EQ(live.devices[i].peak.allocated, reported.peak_allocated.bytes);
    EXPECT_EQ(live.devices[i].peak.total, reported.peak_total.bytes);
    EXPECT_EQ(live.devices[i].capacity, reported.capacity);
    uint64_t lines = 0;
    for (const LiveLine& line : live.lines) lines += line.bytes;
    EXPECT_EQ(lines, reported.leaks.at_end_torch.bytes);
  }
  EXPECT_EQ(live.categories, (*attribution)->moments[0].categories);
  const auto complete = std::count_if((*attribution)->steps.begin(), (*attribution)->steps.end(),
                                      [](const AttributedStep& each) { return each.step.complete; });
  EXPECT_EQ(live.steps.count, static_cast<uint64_t>(complete));
}

TEST(TraceFollower, OfAWholeFileSaysWhatTheReportSays) {
  const std::string path = Training(40);
  const auto follower = OpenOrDie(path);
  ASSERT_TRUE(follower->Poll(true).ok());
  const LiveProcess live = follower->Frame();
  EXPECT_EQ(live.state, LiveProcess::State::kEnded);
  EXPECT_EQ(live.steps.count, 40u);
  EXPECT_EQ(live.devices[0].now.allocated, 160 * kMiB);
  ASSERT_FALSE(live.lines.empty());
  EXPECT_EQ(live.lines[0].site, "job/serve.py:88 remember");
  ExpectAsReported(path, live);
}

// At every stage of the growth, cut anywhere, also inside of a packet.
TEST(TraceFollower, OfAGrowingFileSaysWhatTheReportSaysOfWhatIsThere) {
  const std::string bytes = BytesOf(Training(40));
  GrowingFile file("growing.gmtrace");
  const size_t pieces = 23;
  std::unique_ptr<TraceFollower> follower;
  for (size_t i = 0; i < pieces; ++i) {
    const size_t from = i * bytes.size() / pieces, to = (i + 1) * bytes.size() / pieces;
    file.Append(bytes.substr(from, to - from));
    if (follower == nullptr) {
      absl::StatusOr<std::unique_ptr<TraceFollower>> opened = TraceFollower::Open(file.path(), {});
      if (!opened.ok()) continue;  // half a header
      follower = *std::move(opened);
    }
    ASSERT_TRUE(follower->Poll(true).ok());
    const LiveProcess live = follower->Frame();
    EXPECT_EQ(live.problem, "") << "half a packet is not damage";
    if (live.device >= 0) ExpectAsReported(file.path(), live);
  }
  EXPECT_EQ(follower->Frame().state, LiveProcess::State::kEnded);
}

TEST(TraceFollower, TheNewestBatchWaitsForOnePoll) {
  GrowingFile file("waiting.gmtrace");
  file.Append(BytesOf(Training(5, false)));
  const auto follower = OpenOrDie(file.path());
  ASSERT_TRUE(follower->Poll(false).ok());
  const uint64_t before = follower->Frame().events;
  ASSERT_TRUE(follower->Poll(false).ok());
  const LiveProcess live = follower->Frame();
  EXPECT_LT(before, live.events);
  EXPECT_EQ(live.state, LiveProcess::State::kUnknown) << "its process is none of this machine";
  ExpectAsReported(file.path(), live);
}

TEST(TraceFollower, AFileThatWasCutOrReplacedIsAnotherOne) {
  GrowingFile file("cut.gmtrace");
  file.Append(BytesOf(Training(10, false)));
  const auto follower = OpenOrDie(file.path());
  ASSERT_TRUE(follower->Poll(true).ok());
  std::filesystem::resize_file(file.path(), 100);
  EXPECT_EQ(follower->Poll(true).code(), absl::StatusCode::kAborted);

  GrowingFile other("replaced.gmtrace");
  other.Append(BytesOf(Training(10, false)));
  const auto second = OpenOrDie(other.path());
  ASSERT_TRUE(second->Poll(true).ok());
  std::filesystem::rename(Training(12), other.path());
  EXPECT_EQ(second->Poll(true).code(), absl::StatusCode::kAborted);
}

TEST(LiveJob, ReadsAFileThatWasReplacedFromItsBeginning) {
  GrowingFile file("restarted.gmtrace");
  file.Append(BytesOf(Training(10, false)));
  const auto job = LiveJob::Open(file.path(), {});
  ASSERT_TRUE(job.ok()) << job.status();
  (*job)->Poll(true);
  EXPECT_EQ((*job)->Frame().processes.at(0).steps.count, 10u);
  std::filesystem::rename(Training(3), file.path());
  (*job)->Poll(true);
  EXPECT_EQ((*job)->Frame().processes.at(0).steps.count, 3u);
}

TEST(TraceFollower, ReadsNothingTwice) {
  const std::string path = Training(200);
  const auto follower = OpenOrDie(path);
  ASSERT_TRUE(follower->Poll(true).ok());
  const uint64_t events = follower->Frame().events, bytes = follower->bytes_read();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(follower->Poll(true).ok());
  EXPECT_EQ(follower->Frame().events, events);
  EXPECT_EQ(follower->bytes_read(), bytes);
}

}  // namespace
}  // namespace gpumem

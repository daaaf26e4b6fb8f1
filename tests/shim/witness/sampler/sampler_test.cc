// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The thread.

#include "shim/witness/sampler/sampler.h"

#include <gpumem/trace.pb.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "shim/base/buffer.h"
#include "shim/base/clock.h"
#include "tests/shim/witness/sampler/fake_nvml.h"

namespace gpumemshim::sampler {
namespace {

namespace pb = gpumem::trace;

constexpr uint8_t kUuid[16] = {0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a,
                               0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 7};
std::atomic<int> g_warnings{0};

bool TakeSample(pb::Counters* out) {
  Buffer buffer;
  ProtoWriter w(&buffer);
  if (!PutSample(&w)) return false;
  pb::Trace trace;
  EXPECT_TRUE(trace.ParseFromArray(buffer.data(), static_cast<int>(buffer.size())));
  *out = trace.packet(0).counters();
  return true;
}

bool Eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 20'000; i++) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// The folder in /proc of the thread with this name; "" = none.
std::string FindThread(const char* name) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "comm");
    std::string comm;
    std::getline(file, comm);
    if (comm == name) return entry.path();
  }
  return "";
}

void Start(uint32_t interval_ms, const char* warn_at = "") {
  g_fake_nvml.total = 1000;
  g_fake_nvml.used = 600;
  g_fake_nvml.pids[0] = static_cast<uint32_t>(getpid());
  g_fake_nvml.bytes[0] = 400;
  g_fake_nvml.process_count = 1;
  Config config;
  config.interval_ms = interval_ms;
  config.warn_at = warn_at;
  config.read_pool = [](int16_t, uint64_t* reserved, uint64_t* used) {
    *reserved = 64;
    *used = 32;
    return true;
  };
  config.warn = [](const Crossing&) { g_warnings++; };
  Configure(config);
  AddDevice(3, kUuid);
}

class SamplerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    g_fake_nvml.init_result = 0;
    g_fake_nvml.memory_result = 0;
    g_fake_nvml.hold = false;
    g_fake_nvml.questions = 0;
    g_warnings = 0;
  }
};

TEST_F(SamplerTest, SamplesADeviceFromItsFirstEventToTheEnd) {
  Start(3'600'000);
  pb::Counters counters;
  ASSERT_TRUE(Eventually([&] { return TakeSample(&counters); }));
  EXPECT_EQ(counters.cause(), pb::FIRST_EVENT);
  ASSERT_EQ(counters.devices_size(), 1);
  EXPECT_EQ(counters.devices(0).device(), 3);
  EXPECT_EQ(counters.devices(0).own_bytes(), 400u);
  EXPECT_EQ(counters.devices(0).used_bytes(), 600u);
  EXPECT_EQ(counters.source(), "NVML 1.2.3");
  EXPECT_FALSE(counters.devices(0).has_pool_reserved_bytes());
  Finish(20'000);
  ASSERT_TRUE(TakeSample(&counters));
  EXPECT_EQ(counters.cause(), pb::PROGRAM_END);
  EXPECT_FALSE(TakeSample(&counters));
  EXPECT_EQ(FindThread("gpumemshim-nvml"), "");
  Finish(20'000);  // once more does nothing
}

// A reader takes memory for settled a millisecond after its last change, and prefers what is.
TEST_F(SamplerTest, TheLastSampleIsOfSettledMemory) {
  Start(3'600'000);
  pb::Counters counters;
  ASSERT_TRUE(Eventually([&] { return TakeSample(&counters); }));
  Event event{};
  event.kind = EventKind::kFree;
  event.layer = Layer::kDriver;
  event.device = 3;
  event.time_ns = MonotonicNs();
  SawEvent(event);
  Event mark{};  // is not a change of memory
  mark.kind = EventKind::kMark;
  mark.time_ns = event.time_ns + 3'600'000'000'000;
  SawEvent(mark);
  Finish(20'000);
  ASSERT_TRUE(TakeSample(&counters));
  EXPECT_EQ(counters.cause(), pb::PROGRAM_END);
  EXPECT_GT(counters.time_ns() - counters.took_ns(), event.time_ns + 1'000'000);
  EXPECT_LT(counters.time_ns(), mark.time_ns);
}

TEST_F(SamplerTest, TheThreadHasANameAndBlocksSignals) {
  Start(3'600'000);
  std::string folder;
  ASSERT_TRUE(Eventually([&] { return !(folder = FindThread("gpumemshim-nvml")).empty(); }));
  std::ifstream status(folder + "/status");
  std::string line;
  while (std::getline(status, line) && line.rfind("SigBlk:", 0) != 0) {
  }
  // All that can be blocked: bits 9 (KILL), 19 (STOP) and the C library's own 32 and 33 apart.
  EXPECT_EQ(std::stoull(line.substr(7), nullptr, 16) | 0x180040100u, 0xffffffffffffffffu) << line;
  Finish(20'000);
}

TEST_F(SamplerTest, FailuresGrowthAndPoolsAreSampled) {
  Start(3'600'000);
  pb::Counters counters;
  ASSERT_TRUE(Eventually([&] { return TakeSample(&counters); }));
  Event event{};
  event.device = 3;
  event.kind = EventKind::kAlloc;
  event.memory = Memory::kStreamOrdered;
  SawEvent(event);
  ASSERT_TRUE(Eventually([&] { return TakeSample(&counters); }));
  EXPECT_EQ(counters.cause(), pb::GROWTH);
  EXPECT_EQ(counters.devices(0).pool_reserved_bytes(), 64u);
  EXPECT_EQ(counters.devices(0).pool_used_bytes(), 32u);
  event.kind = EventKind::kAllocFailed;
  SawEvent(event);
  ASSERT_TRUE(Eventually([&] { return TakeSample(&counters); }));
  EXPECT_EQ(counters.cause(), pb::OUT_OF_MEMORY);
  event.kind = EventKind::kFree;
  SawEvent(event);
  Finish(20'000);
  ASSERT_TRUE(TakeSample(&counters));
  EXPECT_EQ(counters.cause(), pb::PROGRAM_END);
}

TEST_F(SamplerTest, WarnsOnce) {
  Start(10, "50%,900");
  ASSERT_TRUE(Eventually([] { return g_warnings == 1; }));
  g_fake_nvml.used = 950;
  ASSERT_TRUE(Eventually([] { return g_warnings == 2; }));  // also where nobody takes the samples
  const uint32_t questions = g_fake_nvml.questions;
  ASSERT_TRUE(Eventually([&] { return g_fake_nvml.questions > questions + 2; }));
  EXPECT_EQ(g_warnings, 2);
  Finish(20'000);
}

TEST_F(SamplerTest, AfterAFailedRequestALimitIsInTheTraceAlone) {
  Start(10'000, "90%");
  pb::Counters counters;
  ASSERT_TRUE(Eventually([&] { return TakeSample(&counters); }));
  g_fake_nvml.used = 950;
  Event event{};
  event.kind = EventKind::kAllocFailed;
  SawEvent(event);
  ASSERT_TRUE(Eventually([&] { return TakeSample(&counters); }));
  EXPECT_EQ(counters.crossings_size(), 1);
  Finish(20'000);
  EXPECT_EQ(g_warnings, 0);
}

TEST_F(SamplerTest, WithoutNvmlOneSampleSaysWhy) {
  g_fake_nvml.init_result = 9;
  Start(10);
  pb::Counters counters;
  ASSERT_TRUE(Eventually([&] { return TakeSample(&counters); }));
  EXPECT_EQ(counters.source_error(), "NVML does not start: as the test said (9)");
  EXPECT_EQ(counters.devices_size(), 0);
  EXPECT_GT(counters.process_rss_bytes(), 0u);
  ASSERT_TRUE(Eventually([] { return FindThread("gpumemshim-nvml").empty(); }));
  Finish(20'000);
  EXPECT_FALSE(TakeSample(&counters));
}

TEST_F(SamplerTest, OffMeansNoThread) {
  Start(0);
  EXPECT_EQ(FindThread("gpumemshim-nvml"), "");
  pb::Counters counters;
  EXPECT_FALSE(TakeSample(&counters));
  Finish(20'000);
}

TEST_F(SamplerTest, AQuestionThatNeverComesBackDoesNotHoldTheExit) {
  g_fake_nvml.hold = true;
  Start(10);
  ASSERT_TRUE(Eventually([] { return g_fake_nvml.questions > 0; }));
  Finish(20);  // returns
  g_fake_nvml.hold = false;
  ASSERT_TRUE(Eventually([] { return FindThread("gpumemshim-nvml").empty(); }));
}

// A fork waits for the question in progress, and the child may sample by itself.
TEST_F(SamplerTest, ForkedChildrenBeginAnew) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends a child that starts a thread after a fork of a threaded process";
#endif
  pthread_atfork(&BeforeFork, &AfterForkInParent, &ForgetInChild);
  Start(5);
  // AddressSanitizer's own locks are not made for a fork in the middle of a thread's first moments.
  pb::Counters first;
  ASSERT_TRUE(Eventually([&] { return TakeSample(&first); }));
  for (int i = 0; i < 20; i++) {
    const pid_t child = fork();
    if (child == 0) {
      pb::Counters counters;
      if (!FindThread("gpumemshim-nvml").empty() || TakeSample(&counters)) _exit(1);
      Finish(1000);
      Start(3'600'000);
      const bool sampled = Eventually([&] { return TakeSample(&counters); });
      Finish(20'000);
      _exit(sampled && counters.devices_size() == 1 ? 0 : 2);
    }
    ASSERT_GT(child, 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 0);
  }
  pb::Counters counters;
  EXPECT_TRUE(Eventually([&] { return TakeSample(&counters); }));  // the parent's goes on
  Finish(20'000);
}

}  // namespace
}  // namespace gpumemshim::sampler

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// The hooks of c10's two reports, in both manglings (shim/hooks/torch.cc).

#include "shim/hooks/capture.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

// c10::Device as it is passed.
struct Device {
  int8_t type;
  int8_t index;
};
constexpr int8_t kCpu = 0;
constexpr int8_t kCuda = 1;

extern "C" {
void ReportMemory(void*, int64_t, uint64_t, uint64_t,
                  Device) asm("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
void ReportMemorySigned(void*, int64_t, uint64_t, uint64_t,
                        Device) asm("_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE");
void ReportOom(int64_t, uint64_t, uint64_t, Device) asm("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
void ReportOomSigned(int64_t, uint64_t, uint64_t, Device) asm("_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE");
size_t Divisions(size_t) asm("_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig24roundup_power2_divisionsEm");
size_t DivisionsBefore29(size_t) asm(
    "_ZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig24roundup_power2_divisionsEm");
}

size_t FourDivisions(size_t) { return 4; }

// c10::cuda::CUDAStream as it is returned.
struct Stream {
  uint64_t device;
  int64_t id;
};
int64_t g_stream = 0;
Stream CurrentStream(int8_t device) { return {1u | static_cast<uint64_t>(device) << 8, g_stream}; }

// PyTorch's own functions behind ours: what they were given.
std::vector<std::string> g_passed_on;
int g_depth_inside = -1;

void PassedOn(void* address, int64_t size, uint64_t allocated, uint64_t reserved, Device device) {
  g_passed_on.push_back(std::to_string(reinterpret_cast<uint64_t>(address)) + " " + std::to_string(size) + " " +
                        std::to_string(allocated) + " " + std::to_string(reserved) + " " + std::to_string(device.type) +
                        ":" + std::to_string(device.index));
  g_depth_inside = t_depth;
  errno = kErrnoOfCall;
}
void OomPassedOn(int64_t size, uint64_t allocated, uint64_t reserved, Device device) {
  PassedOn(nullptr, size, allocated, reserved, device);
}

class TorchTest : public HookTest {
 protected:
  TorchTest() {
    g_passed_on.clear();
    for (const char* name : {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
                             "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE"}) {
      g_around.next_in_scope[name] = reinterpret_cast<void*>(&PassedOn);
    }
    // The signed one is nowhere, as in a newer PyTorch.
    g_around.next_in_scope["_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"] =
        reinterpret_cast<void*>(&OomPassedOn);
    g_around.next_in_scope["_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig24roundup_power2_divisionsEm"] =
        reinterpret_cast<void*>(&FourDivisions);
    g_around.next_in_scope["_ZN3c104cuda20getCurrentCUDAStreamEa"] = reinterpret_cast<void*>(&CurrentStream);
    g_stream = 0;
  }

  static void* Block() { return reinterpret_cast<void*>(0x7000); }
};

TEST_F(TorchTest, ABlockIsRecordedAndPassedOn) {
  for (const auto report : {&ReportMemory, &ReportMemorySigned}) {
    errno = 0;
    report(Block(), 512, 1024, 4096, {kCuda, 2});
    EXPECT_EQ(errno, kErrnoOfCall);
    EXPECT_EQ(Recorded(),
              Lines{"Alloc Device CUDACachingAllocator::malloc device=2 address=0x7000 size=512 allocated=1024 "
                    "reserved=4096"});
    EXPECT_EQ(g_passed_on, Lines{"28672 512 1024 4096 1:2"});
    g_passed_on.clear();
  }
  EXPECT_EQ(g_depth_inside, 0);
  EXPECT_EQ(t_depth, 0);
}

// Where a program ends is seen only by a helper that came before: it is asked for at the first block, not later.
TEST_F(TorchTest, TheFirstBlockAsksForTheHelper) {
  session::g_asked_helper.store(false);
  errno = 0;
  ReportMemory(Block(), 512, 1024, 4096, {kCuda, 2});
  ReportMemory(Block(), -512, 1024, 4096, {kCuda, 2});
  ReportMemory(Block(), 512, 1024, 4096, {kCuda, 2});
  EXPECT_EQ(g_around.asked_helper, 1);
  EXPECT_EQ(errno, kErrnoOfCall);
  Recorded();
}

TEST_F(TorchTest, AFreeHasASizeBelowZero) {
  ReportMemory(Block(), -512, 1024, 4096, {kCuda, 2});
  EXPECT_EQ(Recorded(), Lines{"Free Device CUDACachingAllocator::free device=2 address=0x7000 size=512 allocated=1024 "
                              "reserved=4096"});
  EXPECT_EQ(g_passed_on, Lines{"28672 -512 1024 4096 1:2"});
}

// What the allocator's settings are asked for while it rounds a request tells the request.
TEST_F(TorchTest, ABlockHasTheSizeThatWasAskedForAndTheStream) {
  EXPECT_EQ(Divisions(4000), 4u);
  g_stream = 7;
  ReportMemory(Block(), 4096, 0, 0, {kCuda, 0});
  ReportMemory(Block(), -4096, 0, 0, {kCuda, 0});
  ReportMemory(Block(), 512, 0, 0, {kCuda, 0});  // nobody asks where so little is wanted
  EXPECT_EQ(
      Recorded(),
      (Lines{"Alloc Device CUDACachingAllocator::malloc device=0 address=0x7000 size=4096 requested=4000 stream=0x7",
             "Free Device CUDACachingAllocator::free device=0 address=0x7000 size=4096",
             "Alloc Device CUDACachingAllocator::malloc device=0 address=0x7000 size=512 stream=0x7"}));
}

TEST_F(TorchTest, ARequestThatWasGivenUpIsNoOtherBlocks) {
  EXPECT_EQ(DivisionsBefore29(1 << 20), 0u);  // the real one is nowhere: no rounding
  ReportMemory(Block(), 512, 0, 0, {kCuda, 0});
  ReportMemory(Block(), 2 << 20, 0, 0, {kCuda, 0});
  EXPECT_EQ(Recorded(), (Lines{"Alloc Device CUDACachingAllocator::malloc device=0 address=0x7000 size=512",
                               "Alloc Device CUDACachingAllocator::malloc device=0 address=0x7000 size=2097152"}));
}

TEST_F(TorchTest, WhatIsCapturedNamesTheCapture) {
  capture::g_begun = 3;
  capture::g_active = 1;
  ReportMemory(Block(), 512, 0, 0, {kCuda, 0});  // the default stream is never captured
  g_stream = 7;
  ReportMemory(Block(), 512, 0, 0, {kCuda, 0});
  capture::g_active = 0;
  capture::g_begun = 0;
  ReportMemory(Block(), 512, 0, 0, {kCuda, 0});
  EXPECT_EQ(Recorded(),
            (Lines{"Alloc Device CUDACachingAllocator::malloc device=0 address=0x7000 size=512",
                   "Alloc Device CUDACachingAllocator::malloc device=0 address=0x7000 size=512 stream=0x7 handle=0x3",
                   "Alloc Device CUDACachingAllocator::malloc device=0 address=0x7000 size=512 stream=0x7"}));
}

TEST_F(TorchTest, FreesHaveStacksWhereTheyAreWanted) {
  stack::g_free_stacks.store(false);
  ReportMemory(Block(), -512, 0, 0, {kCuda, 0});
  EXPECT_EQ(Recorded(), Lines{"Free Device CUDACachingAllocator::free device=0 address=0x7000 size=512 no stack"});
  EXPECT_EQ(g_around.captures, 0);
  stack::g_free_stacks.store(true);
  ReportMemory(Block(), -512, 0, 0, {kCuda, 0});
  EXPECT_EQ(Recorded(), Lines{"Free Device CUDACachingAllocator::free device=0 address=0x7000 size=512"});
}

TEST_F(TorchTest, ABlockInsideOfAHookIsALayerOfItsOwn) {
  t_depth = 1;
  ReportMemory(Block(), 512, 0, 0, {kCuda, 0});
  EXPECT_EQ(t_depth, 1);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device CUDACachingAllocator::malloc device=0 address=0x7000 size=512"});
  t_depth = 0;
}

TEST_F(TorchTest, OtherDevicesAndNothingArePassedOnAlone) {
  ReportMemory(Block(), 512, 0, 0, {kCpu, 0});
  ReportMemory(Block(), 0, 0, 0, {kCuda, 0});
  ReportOom(512, 0, 0, {kCpu, 0});
  EXPECT_EQ(Recorded(), Lines{});
  EXPECT_EQ(g_passed_on.size(), 3u);
}

TEST_F(TorchTest, NothingWhileOff) {
  session::g_off.store(true);
  ReportMemory(Block(), 512, 0, 0, {kCuda, 0});
  ReportOom(512, 0, 0, {kCuda, 0});
  EXPECT_EQ(Recorded(), Lines{});
  EXPECT_EQ(g_passed_on.size(), 2u);
}

TEST_F(TorchTest, OutOfMemoryHasTheAllocatorsTotalsAndTheDevices) {
  errno = 0;
  ReportOom(512, 1024, 4096, {kCuda, 3});
  EXPECT_EQ(errno, kErrnoOfCall);
  EXPECT_EQ(Recorded(), (Lines{"AllocFailed Device CUDACachingAllocator::malloc device=3 size=512 allocated=1024 "
                               "reserved=4096 result=2",
                               "OomAllocator Device device=3 size=1024 requested=4096 no stack",
                               "OomDevice Device device=3 size=1000 requested=4000 no stack"}));
  EXPECT_EQ(g_passed_on, Lines{"0 512 1024 4096 1:3"});
  EXPECT_EQ(g_around.flushes, 1);
}

TEST_F(TorchTest, AReportThatPyTorchDoesNotHaveEndsHere) {
  errno = kErrnoOfCall;
  ReportOomSigned(512, 0, 0, {kCuda, 0});
  ReportOomSigned(512, 0, 0, {kCuda, 0});
  EXPECT_EQ(errno, kErrnoOfCall);
  EXPECT_EQ(g_passed_on, Lines{});
  EXPECT_FALSE(Recorded().empty());
}

TEST_F(TorchTest, AFullRingLosesBlocksAndNothingElse) {
  constexpr int kReports = 9000;
  for (int i = 0; i < kReports; ++i) ReportMemory(Block(), i % 2 == 0 ? 512 : -512, 1, 1, {kCuda, 0});
  EXPECT_EQ(g_passed_on.size(), size_t{kReports});
  const ring::Stats stats = ring::GetStats();
  EXPECT_GT(stats.dropped_allocs, 0u);
  EXPECT_EQ(TakeEvents().size() + stats.dropped_allocs + stats.dropped_frees, size_t{kReports});
}

}  // namespace
}  // namespace gpumemshim::hooks

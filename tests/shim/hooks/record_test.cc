// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/record.h"

#include <thread>

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using RecordTest = HookTest;

CUresult Allocate(CUdeviceptr* out, CUresult answer = CUDA_SUCCESS) {
  fake::cuMemAlloc_v2::Answer(answer, [](CUdeviceptr* address, size_t) { *address = 0x7000; });
  return Keep([&] { return cuMemAlloc_v2(out, 512); });
}
constexpr const char* kAllocated = "Alloc Device cuMemAlloc_v2 device=3 address=0x7000 size=512";

TEST_F(RecordTest, AnEventHasLayerTimeDurationAndStack) {
  using Real = fake::cuMemAlloc_v2;
  Real::Answer(CUDA_SUCCESS, [](CUdeviceptr*, size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  CUdeviceptr address = 0x7000;
  const uint64_t before_ns = MonotonicNs();
  EXPECT_EQ(cuMemAlloc_v2(&address, 512), CUDA_SUCCESS);
  const std::vector<Event> events = TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].layer, Layer::kDriver);
  EXPECT_EQ(events[0].stack, kStack);
  EXPECT_GE(events[0].duration_ns, 2'000'000u);
  EXPECT_GE(events[0].time_ns, before_ns + events[0].duration_ns);
  EXPECT_LE(events[0].time_ns, MonotonicNs());
}

TEST_F(RecordTest, TheOutermostCallAloneRecords) {
  using Inner = fake::cuMemAlloc_v2;
  using Outer = fake::cudaMalloc;
  Inner::Answer(CUDA_SUCCESS, [](CUdeviceptr* address, size_t) { *address = 0x7000; });
  Outer::Answer(cudaSuccess, [](void** out, size_t bytes) {
    EXPECT_EQ(t_depth, 1);
    cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(out), bytes);
    EXPECT_EQ(t_depth, 1);
  });
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cudaMalloc(&address, 512); }), cudaSuccess);
  EXPECT_EQ(Inner::calls, 1);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cudaMalloc device=3 address=0x7000 size=512"});
}

TEST_F(RecordTest, NothingWhileOff) {
  session::g_off.store(true);
  CUdeviceptr address = 0;
  EXPECT_EQ(Allocate(&address), CUDA_SUCCESS);
  EXPECT_EQ(address, 0x7000u);
  EXPECT_EQ(Recorded(), Lines{});
  EXPECT_EQ(g_driver.questions, 0);
}

TEST_F(RecordTest, AnotherPreloadsRuntimeFunctionIsSeenAtTheDriverAlone) {
  g_foreign_runtime[static_cast<uint16_t>(ApiId::kcudaMalloc)].store(true);
  fake::cuMemAlloc_v2::Answer(CUDA_SUCCESS, [](CUdeviceptr* address, size_t) { *address = 0x7000; });
  fake::cudaMalloc::Answer(cudaSuccess,
                           [](void** out, size_t bytes) { cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(out), bytes); });
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cudaMalloc(&address, 512); }), cudaSuccess);
  EXPECT_EQ(Recorded(), Lines{kAllocated});
}

TEST_F(RecordTest, ANewSessionStartsAtAnEvent) {
  ring::Pause();
  g_around.start_succeeds = false;
  CUdeviceptr address = 0;
  EXPECT_EQ(Allocate(&address), CUDA_SUCCESS);
  EXPECT_EQ(g_around.starts_at_event, 1);
  EXPECT_EQ(g_around.captures, 0);
  ASSERT_TRUE(ring::Resume());
  EXPECT_EQ(Recorded(), Lines{});
  EXPECT_EQ(Allocate(&address), CUDA_SUCCESS);
  EXPECT_EQ(g_around.starts_at_event, 1);
  EXPECT_EQ(Recorded(), Lines{kAllocated});
}

TEST_F(RecordTest, TheFirstEventIsWrittenAtOnce) {
  g_around.is_first_event = true;
  CUdeviceptr address = 0;
  Allocate(&address);
  EXPECT_EQ(g_around.flushes, 1);
  Allocate(&address);
  EXPECT_EQ(g_around.flushes, 1);
}

TEST_F(RecordTest, AFailedRequestIsWrittenAtOnce) {
  CUdeviceptr address = 0;
  EXPECT_EQ(Allocate(&address, CUDA_ERROR_INVALID_VALUE), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(g_around.flushes, 1);
  EXPECT_EQ(Recorded(), Lines{"AllocFailed Device cuMemAlloc_v2 device=3 size=512 result=1"});
}

TEST_F(RecordTest, AFreeIsRecordedBeforeTheCallAndTakenBackWhereItFails) {
  using Real = fake::cuMemFree_v2;
  Real::Answer(CUDA_SUCCESS);
  EXPECT_EQ(Keep([] { return cuMemFree_v2(0x7000); }), CUDA_SUCCESS);
  EXPECT_EQ(Real::before, Lines{"Free Device cuMemFree_v2 address=0x7000"});
  EXPECT_EQ(Recorded(), Lines{});
  Real::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([] { return cuMemFree_v2(0x7000); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Real::before, Lines{"Free Device cuMemFree_v2 address=0x7000"});
  EXPECT_EQ(Recorded(), Lines{"FreeFailed Device cuMemFree_v2 address=0x7000 result=1"});
}

// Nobody reads: callers get their answers, and what is lost is counted by kind.
TEST_F(RecordTest, AFullRingLosesEventsAndNothingElse) {
  fake::cuMemAlloc_v2::Answer(CUDA_SUCCESS, [](CUdeviceptr* address, size_t) { *address = 0x7000; });
  // Fake would read the ring.
  g_real_functions[static_cast<uint16_t>(ApiId::kcuMemAlloc_v2)].store(
      reinterpret_cast<void*>(+[](CUdeviceptr* address, size_t bytes) -> CUresult {
        *address = bytes;
        errno = kErrnoOfCall;
        return CUDA_SUCCESS;
      }));
  g_real_functions[static_cast<uint16_t>(ApiId::kcuMemFree_v2)].store(
      reinterpret_cast<void*>(+[](CUdeviceptr) -> CUresult {
        errno = kErrnoOfCall;
        return CUDA_SUCCESS;
      }));
  constexpr int kCalls = 5000;  // events of 104 bytes in a ring of 256 KiB
  for (int i = 1; i <= kCalls; ++i) {
    CUdeviceptr address = 0;
    ASSERT_EQ(Keep([&] { return cuMemAlloc_v2(&address, static_cast<size_t>(i)); }), CUDA_SUCCESS);
    ASSERT_EQ(address, static_cast<CUdeviceptr>(i));
    ASSERT_EQ(Keep([&] { return cuMemFree_v2(address); }), CUDA_SUCCESS);
  }
  const ring::Stats stats = ring::GetStats();
  EXPECT_GT(stats.dropped_allocs, 0u);
  EXPECT_GT(stats.dropped_frees, 0u);
  EXPECT_EQ(TakeEvents().size() + stats.dropped_allocs + stats.dropped_frees, 2u * kCalls);
}

using OomState = HookTest;

Event Failed(ApiId api, Memory memory, int16_t device, int32_t result = 2) {
  Event event = MakeEvent(api, EventKind::kAllocFailed, memory);
  event.device = device;
  event.result = result;
  return event;
}
constexpr const char* kDevice = "OomDevice Device device=3 size=1000 requested=4000 no stack";

TEST_F(OomState, TheDevicesMemoryIsAskedInARelaxedCaptureMode) {
  RecordOomState(Failed(ApiId::kcuMemAlloc_v2, Memory::kDevice, 3));
  EXPECT_EQ(Recorded(), Lines{kDevice});
  EXPECT_EQ(g_driver.capture_mode, CU_STREAM_CAPTURE_MODE_GLOBAL);  // as it was
}

TEST_F(OomState, AnotherDevicesMemoryIsNotInSight) {
  RecordOomState(Failed(ApiId::kcuMemAlloc_v2, Memory::kDevice, 4));
  RecordOomState(Failed(ApiId::kcuMemAlloc_v2, Memory::kDevice, kNoDevice));
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(OomState, OtherFailuresAndOtherMemory) {
  RecordOomState(Failed(ApiId::kcuMemAlloc_v2, Memory::kDevice, 3, CUDA_ERROR_INVALID_VALUE));
  for (const Memory memory : {Memory::kHostPinned, Memory::kPhysicalHost, Memory::kVirtual})
    RecordOomState(Failed(ApiId::kcuMemAlloc_v2, memory, 3));
  EXPECT_EQ(Recorded(), Lines{});
  EXPECT_EQ(g_driver.questions, 0);
}

TEST_F(OomState, TheAllocatorsTotals) {
  Event failed = Failed(ApiId::kTorchMalloc, Memory::kDevice, 3);
  failed.torch_allocated = 10;
  failed.torch_reserved = 20;
  RecordOomState(failed);
  EXPECT_EQ(Recorded(), (Lines{"OomAllocator Device device=3 size=10 requested=20 no stack", kDevice}));
}

TEST_F(OomState, ThePoolThatWasAskedOrTheDevicesCurrentOne) {
  Event failed = Failed(ApiId::kcuMemAllocAsync, Memory::kStreamOrdered, 3);
  RecordOomState(failed);
  EXPECT_EQ(Recorded(), (Lines{"OomPool Device device=3 size=11 requested=22 no stack", kDevice}));
  failed.handle = 0x6000;
  RecordOomState(failed);
  EXPECT_EQ(Recorded(), (Lines{"OomPool Device device=3 size=11 requested=22 handle=0x6000 no stack", kDevice}));
}

TEST_F(OomState, ADriverThatDoesNotAnswer) {
  g_driver.result = CUDA_ERROR_DEINITIALIZED;
  RecordOomState(Failed(ApiId::kcuMemAllocAsync, Memory::kStreamOrdered, 3));
  EXPECT_EQ(Recorded(), Lines{});
}

}  // namespace
}  // namespace gpumemshim::hooks

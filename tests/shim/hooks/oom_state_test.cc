// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/hooks/oom_state.h"

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

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

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// The runtime's linear memory (shim/hooks/runtime_memory.cc).

#include "shim/hooks/capture.h"
#include "shim/hooks/device.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using RuntimeMemory = HookTest;

void* const kAddress = reinterpret_cast<void*>(0x7000);
const auto kRuntimeStream = MakeHandle<cudaStream_t>(0x5000);
const auto kPool = MakeHandle<cudaMemPool_t>(0x6000);

TEST_F(RuntimeMemory, Malloc) {
  using Real = fake::cudaMalloc;
  Real::Answer(cudaSuccess, [](void** out, size_t) { *out = kAddress; });
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cudaMalloc(&address, 512); }), cudaSuccess);
  EXPECT_EQ(address, kAddress);
  EXPECT_EQ(Real::before, Lines{});
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cudaMalloc device=3 address=0x7000 size=512"});
}

TEST_F(RuntimeMemory, MallocThatFailsLeavesThePointerAloneAndSaysWhatWasFree) {
  using Real = fake::cudaMalloc;
  Real::Answer(cudaErrorMemoryAllocation);
  auto* address = reinterpret_cast<void*>(0x1);  // not to be read
  EXPECT_EQ(Keep([&] { return cudaMalloc(&address, 512); }), cudaErrorMemoryAllocation);
  EXPECT_EQ(address, reinterpret_cast<void*>(0x1));
  EXPECT_EQ(Real::calls, 1);
  EXPECT_EQ(Recorded(), (Lines{"AllocFailed Device cudaMalloc device=3 size=512 result=2",
                               "OomDevice Device device=3 size=1000 requested=4000 no stack"}));
}

TEST_F(RuntimeMemory, MallocWithoutAnOutParameter) {
  fake::cudaMalloc::Answer(cudaSuccess);
  EXPECT_EQ(Keep([] { return cudaMalloc(nullptr, 512); }), cudaSuccess);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cudaMalloc device=3 size=512"});
}

TEST_F(RuntimeMemory, MallocOnAThreadWithoutAContext) {
  g_driver.result = CUDA_ERROR_INVALID_CONTEXT;
  fake::cudaMalloc::Answer(cudaSuccess, [](void** out, size_t) { *out = kAddress; });
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cudaMalloc(&address, 512); }), cudaSuccess);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cudaMalloc address=0x7000 size=512"});
}

TEST_F(RuntimeMemory, MallocInAContextOfTheProgramsOwn) {
  g_driver.context = MakeHandle<CUcontext>(0xc0);
  AddOwnContext(0xc0);
  fake::cudaMalloc::Answer(cudaSuccess, [](void** out, size_t) { *out = kAddress; });
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cudaMalloc(&address, 512); }), cudaSuccess);
  RemoveOwnContext(0xc0);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cudaMalloc device=3 address=0x7000 size=512 handle=0xc0"});
}

TEST_F(RuntimeMemory, Managed) {
  using Real = fake::cudaMallocManaged;
  Real::Answer(cudaSuccess, [](void** out, size_t, unsigned int) { *out = kAddress; });
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cudaMallocManaged(&address, 512, cudaMemAttachGlobal); }), cudaSuccess);
  EXPECT_EQ(std::get<2>(Real::given), unsigned{cudaMemAttachGlobal});
  EXPECT_EQ(Recorded(), Lines{"Alloc Managed cudaMallocManaged device=3 address=0x7000 size=512"});
}

TEST_F(RuntimeMemory, PitchedMemoryHasTheSizeOfItsRows) {
  using Real = fake::cudaMallocPitch;
  const auto effect = [](void** out, size_t* pitch, size_t, size_t) {
    *out = kAddress;
    if (pitch != nullptr) *pitch = 512;
  };
  Real::Answer(cudaSuccess, effect);
  void* address = nullptr;
  size_t pitch = 0;
  EXPECT_EQ(Keep([&] { return cudaMallocPitch(&address, &pitch, 100, 8); }), cudaSuccess);
  EXPECT_EQ(Keep([&] { return cudaMallocPitch(&address, nullptr, 100, 8); }), cudaSuccess);
  EXPECT_EQ(Real::before, Lines{"Alloc Device cudaMallocPitch device=3 address=0x7000 size=4096 requested=800"});
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cudaMallocPitch device=3 address=0x7000 size=800 requested=800"});
  Real::Answer(cudaErrorInvalidValue);
  EXPECT_EQ(Keep([&] { return cudaMallocPitch(&address, &pitch, 100, 8); }), cudaErrorInvalidValue);
  EXPECT_EQ(Recorded(), Lines{"AllocFailed Device cudaMallocPitch device=3 size=800 result=1"});
}

TEST_F(RuntimeMemory, ThreeDimensions) {
  using Real = fake::cudaMalloc3D;
  Real::Answer(cudaSuccess, [](cudaPitchedPtr* out, cudaExtent) { *out = {kAddress, 512, 100, 8}; });
  cudaPitchedPtr memory{};
  EXPECT_EQ(Keep([&] { return cudaMalloc3D(&memory, {100, 8, 2}); }), cudaSuccess);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cudaMalloc3D device=3 address=0x7000 size=8192 requested=1600"});
  Real::Answer(cudaErrorInvalidValue);
  EXPECT_EQ(Keep([&] { return cudaMalloc3D(&memory, {100, 8, 2}); }), cudaErrorInvalidValue);
  EXPECT_EQ(Recorded(), Lines{"AllocFailed Device cudaMalloc3D device=3 size=1600 result=1"});
}

TEST_F(RuntimeMemory, OnAStream) {
  using Real = fake::cudaMallocAsync;
  Real::Answer(cudaSuccess, [](void** out, size_t, cudaStream_t) { *out = kAddress; });
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cudaMallocAsync(&address, 512, nullptr); }), cudaSuccess);
  EXPECT_EQ(Recorded(), Lines{"Alloc StreamOrdered cudaMallocAsync device=3 address=0x7000 size=512"});
  // A stream may be another device's than the current one.
  EXPECT_EQ(Keep([&] { return cudaMallocAsync(&address, 512, kRuntimeStream); }), cudaSuccess);
  EXPECT_EQ(Recorded(), Lines{"Alloc StreamOrdered cudaMallocAsync device=5 address=0x7000 size=512 stream=0x5000"});
  Real::Answer(cudaErrorMemoryAllocation);
  EXPECT_EQ(Keep([&] { return cudaMallocAsync(&address, 512, kRuntimeStream); }), cudaErrorMemoryAllocation);
  EXPECT_EQ(Recorded(), (Lines{"AllocFailed StreamOrdered cudaMallocAsync device=3 size=512 stream=0x5000 result=2",
                               "OomPool Device device=3 size=11 requested=22 no stack",
                               "OomDevice Device device=3 size=1000 requested=4000 no stack"}));
}

TEST_F(RuntimeMemory, FromAPool) {
  using Real = fake::cudaMallocFromPoolAsync;
  Real::Answer(cudaSuccess, [](void** out, size_t, cudaMemPool_t, cudaStream_t) { *out = kAddress; });
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cudaMallocFromPoolAsync(&address, 512, kPool, kRuntimeStream); }), cudaSuccess);
  EXPECT_EQ(Recorded(), Lines{"Alloc StreamOrdered cudaMallocFromPoolAsync device=5 address=0x7000 size=512 "
                              "stream=0x5000 handle=0x6000"});
}

TEST_F(RuntimeMemory, InACaptureItIsANode) {
  fake::cudaMallocAsync::Answer(cudaSuccess, [](void** out, size_t, cudaStream_t) { *out = kAddress; });
  fake::cudaFreeAsync::Answer(cudaSuccess);
  capture::g_active.store(1);
  g_driver.capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cudaMallocAsync(&address, 512, kRuntimeStream); }), cudaSuccess);
  EXPECT_EQ(Keep([&] { return cudaFreeAsync(address, kRuntimeStream); }), cudaSuccess);
  EXPECT_EQ(fake::cudaFreeAsync::before,
            Lines{"GraphNodeAlloc StreamOrdered cudaMallocAsync device=5 address=0x7000 size=512 stream=0x5000"});
  EXPECT_EQ(Recorded(), Lines{"GraphNodeFree StreamOrdered cudaFreeAsync address=0x7000 stream=0x5000"});
  // Another stream is captured.
  g_driver.capture = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_EQ(Keep([&] { return cudaFreeAsync(address, kRuntimeStream); }), cudaSuccess);
  EXPECT_EQ(fake::cudaFreeAsync::before, Lines{"Free StreamOrdered cudaFreeAsync address=0x7000 stream=0x5000"});
}

TEST_F(RuntimeMemory, ThePerThreadFormsAskForThePerThreadStream) {
  fake::cudaMallocAsync_ptsz::Answer(cudaSuccess, [](void** out, size_t, cudaStream_t) { *out = kAddress; });
  fake::cudaMallocFromPoolAsync_ptsz::Answer(cudaSuccess);
  fake::cudaFreeAsync_ptsz::Answer(cudaSuccess);
  capture::g_active.store(1);
  g_driver.capture_per_thread = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  void* address = nullptr;
  Keep([&] { return cudaMallocAsync_ptsz(&address, 512, nullptr); });
  EXPECT_EQ(Recorded(), Lines{"GraphNodeAlloc StreamOrdered cudaMallocAsync_ptsz device=3 address=0x7000 size=512"});
  Keep([&] { return cudaMallocFromPoolAsync_ptsz(nullptr, 512, kPool, nullptr); });
  EXPECT_EQ(Recorded(),
            Lines{"GraphNodeAlloc StreamOrdered cudaMallocFromPoolAsync_ptsz device=3 size=512 handle=0x6000"});
  Keep([&] { return cudaFreeAsync_ptsz(address, nullptr); });
  EXPECT_EQ(Recorded(), Lines{"GraphNodeFree StreamOrdered cudaFreeAsync_ptsz address=0x7000"});
}

TEST_F(RuntimeMemory, FreesAreRecordedBeforeTheCall) {
  fake::cudaFree::Answer(cudaSuccess);
  EXPECT_EQ(Keep([] { return cudaFree(kAddress); }), cudaSuccess);
  EXPECT_EQ(fake::cudaFree::before, Lines{"Free Device cudaFree address=0x7000"});
  fake::cudaFreeAsync::Answer(cudaErrorInvalidValue);
  EXPECT_EQ(Keep([] { return cudaFreeAsync(kAddress, kRuntimeStream); }), cudaErrorInvalidValue);
  EXPECT_EQ(fake::cudaFreeAsync::before, Lines{"Free StreamOrdered cudaFreeAsync address=0x7000 stream=0x5000"});
  EXPECT_EQ(Recorded(), Lines{"FreeFailed StreamOrdered cudaFreeAsync address=0x7000 stream=0x5000 result=1"});
}

TEST_F(RuntimeMemory, FreeingNothingIsNoEvent) {
  fake::cudaFree::Answer(cudaSuccess);
  fake::cudaFreeAsync::Answer(cudaSuccess);
  EXPECT_EQ(Keep([] { return cudaFree(nullptr); }), cudaSuccess);
  EXPECT_EQ(Keep([] { return cudaFreeAsync(nullptr, kRuntimeStream); }), cudaSuccess);
  EXPECT_EQ(fake::cudaFree::calls + fake::cudaFreeAsync::calls, 2);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(RuntimeMemory, DeviceReset) {
  fake::cudaDeviceReset::Answer(cudaSuccess);
  EXPECT_EQ(Keep([] { return cudaDeviceReset(); }), cudaSuccess);
  EXPECT_EQ(fake::cudaDeviceReset::before, Lines{"DeviceReset Device cudaDeviceReset device=3"});
}

}  // namespace
}  // namespace gpumemshim::hooks

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// The driver's stream-ordered memory and its pools (shim/hooks/driver_pools.cc).

#include "shim/hooks/capture.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using DriverPools = HookTest;

const auto kPoolStream = MakeHandle<CUstream>(0x5000);
const auto kDriverPool = MakeHandle<CUmemoryPool>(0x6000);

TEST_F(DriverPools, AllocIsOnTheDeviceOfTheStream) {
  fake::cuMemAllocAsync::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, size_t, CUstream) { *out = 0x7000; });
  CUdeviceptr address = 0;
  EXPECT_EQ(Keep([&] { return cuMemAllocAsync(&address, 512, nullptr); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc StreamOrdered cuMemAllocAsync device=3 address=0x7000 size=512"});
  EXPECT_EQ(Keep([&] { return cuMemAllocAsync(&address, 512, kPoolStream); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc StreamOrdered cuMemAllocAsync device=5 address=0x7000 size=512 stream=0x5000"});
}

TEST_F(DriverPools, AllocThatFailsSaysWhatThePoolHolds) {
  fake::cuMemAllocFromPoolAsync::Answer(CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr address = 0x1;
  EXPECT_EQ(Keep([&] { return cuMemAllocFromPoolAsync(&address, 512, kDriverPool, kPoolStream); }),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 0x1u);
  EXPECT_EQ(Recorded(), (Lines{"AllocFailed StreamOrdered cuMemAllocFromPoolAsync device=3 size=512 stream=0x5000 "
                               "handle=0x6000 result=2",
                               "OomPool Device device=3 size=11 requested=22 handle=0x6000 no stack",
                               "OomDevice Device device=3 size=1000 requested=4000 no stack"}));
}

TEST_F(DriverPools, InACaptureItIsANode) {
  capture::g_active.store(1);
  g_driver.capture_per_thread = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  fake::cuMemAllocAsync_ptsz::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, size_t, CUstream) { *out = 0x7000; });
  fake::cuMemAllocFromPoolAsync_ptsz::Answer(CUDA_SUCCESS);
  fake::cuMemFreeAsync_ptsz::Answer(CUDA_SUCCESS);
  fake::cuMemFreeAsync::Answer(CUDA_SUCCESS);
  CUdeviceptr address = 0;
  Keep([&] { return cuMemAllocAsync_ptsz(&address, 512, nullptr); });
  EXPECT_EQ(Recorded(), Lines{"GraphNodeAlloc StreamOrdered cuMemAllocAsync_ptsz device=3 address=0x7000 size=512"});
  Keep([&] { return cuMemAllocFromPoolAsync_ptsz(nullptr, 512, kDriverPool, nullptr); });
  EXPECT_EQ(Recorded(),
            Lines{"GraphNodeAlloc StreamOrdered cuMemAllocFromPoolAsync_ptsz device=3 size=512 handle=0x6000"});
  Keep([&] { return cuMemFreeAsync_ptsz(address, nullptr); });
  EXPECT_EQ(fake::cuMemFreeAsync_ptsz::before, Lines{});
  EXPECT_EQ(Recorded(), Lines{"GraphNodeFree StreamOrdered cuMemFreeAsync_ptsz address=0x7000"});
  // The legacy stream is not captured.
  Keep([&] { return cuMemFreeAsync(address, nullptr); });
  EXPECT_EQ(fake::cuMemFreeAsync::before, Lines{"Free StreamOrdered cuMemFreeAsync address=0x7000"});
}

TEST_F(DriverPools, Frees) {
  fake::cuMemFreeAsync::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([] { return cuMemFreeAsync(0x7000, kPoolStream); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(fake::cuMemFreeAsync::before, Lines{"Free StreamOrdered cuMemFreeAsync address=0x7000 stream=0x5000"});
  EXPECT_EQ(Recorded(), Lines{"FreeFailed StreamOrdered cuMemFreeAsync address=0x7000 stream=0x5000 result=1"});
  EXPECT_EQ(Keep([] { return cuMemFreeAsync(0, kPoolStream); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverPools, APoolIsWhereItsPropertiesSay) {
  fake::cuMemPoolCreate::Answer(CUDA_SUCCESS, [](CUmemoryPool* out, const CUmemPoolProps*) { *out = kDriverPool; });
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, {4}};
  CUmemoryPool pool = nullptr;
  Keep([&] { return cuMemPoolCreate(&pool, &props); });
  EXPECT_EQ(Recorded(), Lines{"PoolCreate StreamOrdered cuMemPoolCreate device=4 handle=0x6000"});
  props.location.type = CU_MEM_LOCATION_TYPE_HOST;
  Keep([&] { return cuMemPoolCreate(&pool, &props); });
  EXPECT_EQ(Recorded(), Lines{"PoolCreate HostPinned cuMemPoolCreate handle=0x6000"});
  props.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  Keep([&] { return cuMemPoolCreate(&pool, &props); });
  EXPECT_EQ(Recorded(), Lines{"PoolCreate Managed cuMemPoolCreate handle=0x6000"});
}

TEST_F(DriverPools, APoolThatCouldNotBeMadeIsNoEvent) {
  fake::cuMemPoolCreate::Answer(CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(Keep([] { return cuMemPoolCreate(nullptr, nullptr); }), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverPools, Destroy) {
  fake::cuMemPoolDestroy::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([] { return cuMemPoolDestroy(kDriverPool); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(fake::cuMemPoolDestroy::before, Lines{"PoolDestroy StreamOrdered cuMemPoolDestroy handle=0x6000"});
  EXPECT_EQ(Recorded(), Lines{"FreeFailed StreamOrdered cuMemPoolDestroy handle=0x6000 result=1"});
}

TEST_F(DriverPools, TrimSaysWhatIsLeft) {
  fake::cuMemPoolTrimTo::Answer(CUDA_SUCCESS, [](CUmemoryPool, size_t) { g_driver.pool_reserved = 7; });
  EXPECT_EQ(Keep([] { return cuMemPoolTrimTo(kDriverPool, 5); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"PoolTrim StreamOrdered cuMemPoolTrimTo size=5 requested=7 handle=0x6000"});
}

TEST_F(DriverPools, TheReleaseThresholdAloneIsRemembered) {
  fake::cuMemPoolSetAttribute::Answer(CUDA_SUCCESS);
  cuuint64_t threshold = 4096;
  Keep([&] { return cuMemPoolSetAttribute(kDriverPool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold); });
  EXPECT_EQ(Recorded(), Lines{"PoolSetting StreamOrdered cuMemPoolSetAttribute size=4096 handle=0x6000"});
  int reuse = 1;
  Keep([&] { return cuMemPoolSetAttribute(kDriverPool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &reuse); });
  EXPECT_EQ(fake::cuMemPoolSetAttribute::calls, 2);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverPools, TheCurrentPoolOfADevice) {
  fake::cuDeviceSetMemPool::Answer(CUDA_SUCCESS);
  fake::cuMemSetMemPool::Answer(CUDA_SUCCESS);
  Keep([] { return cuDeviceSetMemPool(2, kDriverPool); });
  EXPECT_EQ(Recorded(), Lines{"PoolSetting StreamOrdered cuDeviceSetMemPool device=2 handle=0x6000"});
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, {2}};
  Keep([&] { return cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, kDriverPool); });
  EXPECT_EQ(Recorded(), Lines{"PoolSetting StreamOrdered cuMemSetMemPool device=2 handle=0x6000"});
  location.type = CU_MEM_LOCATION_TYPE_HOST;
  Keep([&] { return cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, kDriverPool); });
  EXPECT_EQ(Recorded(), Lines{"PoolSetting StreamOrdered cuMemSetMemPool handle=0x6000"});
}

TEST_F(DriverPools, PoolsAndPointersOfOtherProcesses) {
  fake::cuMemPoolImportFromShareableHandle::Answer(CUDA_SUCCESS,
                                                   [](CUmemoryPool* out, auto...) { *out = kDriverPool; });
  fake::cuMemPoolImportPointer::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, auto...) { *out = 0x7000; });
  CUmemoryPool pool = nullptr;
  Keep([&] { return cuMemPoolImportFromShareableHandle(&pool, nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0); });
  EXPECT_EQ(Recorded(), Lines{"PoolCreate External cuMemPoolImportFromShareableHandle handle=0x6000"});
  CUdeviceptr address = 0;
  Keep([&] { return cuMemPoolImportPointer(&address, pool, nullptr); });
  EXPECT_EQ(Recorded(),
            Lines{"Import StreamOrdered cuMemPoolImportPointer device=5 address=0x7000 size=4096 handle=0x6000"});
}

}  // namespace
}  // namespace gpumemshim::hooks

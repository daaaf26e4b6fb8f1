// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// The runtime's other memory (shim/hooks/runtime_memory.cc).

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using RuntimeOther = HookTest;

void* const kRuntimeHost = reinterpret_cast<void*>(0x9000);
const auto kRuntimePool = MakeHandle<cudaMemPool_t>(0x6000);
const auto kRuntimeArray = MakeHandle<cudaArray_t>(0xa000);
const auto kRuntimeMipmap = MakeHandle<cudaMipmappedArray_t>(0xa001);
constexpr cudaChannelFormatDesc kFloat = {32, 0, 0, 0, cudaChannelFormatKindFloat};

TEST_F(RuntimeOther, PinnedMemory) {
  fake::cudaMallocHost::Answer(cudaSuccess, [](void** out, size_t) { *out = kRuntimeHost; });
  fake::cudaHostAlloc::Answer(cudaSuccess, [](void** out, auto...) { *out = kRuntimeHost; });
  fake::cudaFreeHost::Answer(cudaSuccess);
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cudaMallocHost(&address, 512); }), cudaSuccess);
  EXPECT_EQ(Recorded(), Lines{"Alloc HostPinned cudaMallocHost device=3 address=0x9000 size=512"});
  EXPECT_EQ(Keep([&] { return cudaHostAlloc(&address, 512, cudaHostAllocMapped); }), cudaSuccess);
  EXPECT_EQ(Recorded(), Lines{"Alloc HostPinned cudaHostAlloc device=3 address=0x9000 size=512"});
  EXPECT_EQ(Keep([&] { return cudaFreeHost(address); }), cudaSuccess);
  EXPECT_EQ(fake::cudaFreeHost::before, Lines{"Free HostPinned cudaFreeHost address=0x9000"});
}

TEST_F(RuntimeOther, PinnedMemoryThatFailsIsNoDevices) {
  fake::cudaHostAlloc::Answer(cudaErrorMemoryAllocation);
  void* address = reinterpret_cast<void*>(0x1);
  EXPECT_EQ(Keep([&] { return cudaHostAlloc(&address, 512, 0); }), cudaErrorMemoryAllocation);
  EXPECT_EQ(address, reinterpret_cast<void*>(0x1));
  EXPECT_EQ(Recorded(), Lines{"AllocFailed HostPinned cudaHostAlloc size=512 result=2"});
  EXPECT_EQ(g_driver.questions, 0);
}

TEST_F(RuntimeOther, RegisteredMemory) {
  fake::cudaHostRegister::Answer(cudaSuccess);
  fake::cudaHostUnregister::Answer(cudaErrorHostMemoryNotRegistered);
  Keep([] { return cudaHostRegister(kRuntimeHost, 512, 0); });
  EXPECT_EQ(Recorded(), Lines{"HostRegister HostPinned cudaHostRegister address=0x9000 size=512"});
  EXPECT_EQ(Keep([] { return cudaHostUnregister(kRuntimeHost); }), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(fake::cudaHostUnregister::before, Lines{"HostUnregister HostPinned cudaHostUnregister address=0x9000"});
  EXPECT_EQ(Recorded(), Lines{"FreeFailed HostPinned cudaHostUnregister address=0x9000 result=713"});
}

TEST_F(RuntimeOther, Arrays) {
  fake::cudaMallocArray::Answer(cudaSuccess, [](cudaArray_t* out, auto...) { *out = kRuntimeArray; });
  fake::cudaMalloc3DArray::Answer(cudaSuccess, [](cudaArray_t* out, auto...) { *out = kRuntimeArray; });
  fake::cudaMallocMipmappedArray::Answer(cudaSuccess,
                                         [](cudaMipmappedArray_t* out, auto...) { *out = kRuntimeMipmap; });
  cudaArray_t array = nullptr;
  cudaMipmappedArray_t mipmap = nullptr;
  Keep([&] { return cudaMallocArray(&array, &kFloat, 64, 16, 0); });
  EXPECT_EQ(Recorded(), Lines{"Alloc Array cudaMallocArray device=3 address=0xa000 size=4096"});
  Keep([&] { return cudaMalloc3DArray(&array, &kFloat, {8, 8, 8}, 0); });
  EXPECT_EQ(Recorded(), Lines{"Alloc Array cudaMalloc3DArray device=3 address=0xa000 size=2048"});
  Keep([&] { return cudaMallocMipmappedArray(&mipmap, &kFloat, {8, 8, 8}, 2, 0); });
  EXPECT_EQ(Recorded(), Lines{"Alloc Array cudaMallocMipmappedArray device=3 address=0xa001 size=2304"});
}

TEST_F(RuntimeOther, SparseArraysHaveNoMemoryYet) {
  fake::cudaMallocArray::Answer(cudaSuccess, [](cudaArray_t* out, auto...) { *out = kRuntimeArray; });
  cudaArray_t array = nullptr;
  for (const unsigned int flags : {cudaArraySparse, cudaArrayDeferredMapping}) {
    Keep([&] { return cudaMallocArray(&array, &kFloat, 64, 16, flags); });
    EXPECT_EQ(Recorded(), Lines{"Alloc Array cudaMallocArray device=3 address=0xa000 requested=4096"});
  }
}

TEST_F(RuntimeOther, AnArrayThatFails) {
  fake::cudaMalloc3DArray::Answer(cudaErrorMemoryAllocation);
  EXPECT_EQ(Keep([] { return cudaMalloc3DArray(nullptr, nullptr, {8, 8, 8}, 0); }), cudaErrorMemoryAllocation);
  EXPECT_EQ(Recorded(), (Lines{"AllocFailed Array cudaMalloc3DArray device=3 size=512 result=2",
                               "OomDevice Device device=3 size=1000 requested=4000 no stack"}));
}

TEST_F(RuntimeOther, ArraysAreFreed) {
  fake::cudaFreeArray::Answer(cudaSuccess);
  fake::cudaFreeMipmappedArray::Answer(cudaErrorInvalidValue);
  Keep([] { return cudaFreeArray(kRuntimeArray); });
  EXPECT_EQ(fake::cudaFreeArray::before, Lines{"Free Array cudaFreeArray address=0xa000"});
  EXPECT_EQ(Keep([] { return cudaFreeMipmappedArray(kRuntimeMipmap); }), cudaErrorInvalidValue);
  EXPECT_EQ(Recorded(), Lines{"FreeFailed Array cudaFreeMipmappedArray address=0xa001 result=1"});
  Keep([] { return cudaFreeArray(nullptr); });
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(RuntimeOther, Pools) {
  fake::cudaMemPoolCreate::Answer(cudaSuccess, [](cudaMemPool_t* out, auto) { *out = kRuntimePool; });
  fake::cudaMemPoolTrimTo::Answer(cudaSuccess);
  fake::cudaMemPoolDestroy::Answer(cudaSuccess);
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = 4;
  cudaMemPool_t pool = nullptr;
  Keep([&] { return cudaMemPoolCreate(&pool, &props); });
  EXPECT_EQ(Recorded(), Lines{"PoolCreate StreamOrdered cudaMemPoolCreate device=4 handle=0x6000"});
  Keep([&] { return cudaMemPoolTrimTo(pool, 5); });
  EXPECT_EQ(Recorded(), Lines{"PoolTrim StreamOrdered cudaMemPoolTrimTo size=5 requested=22 handle=0x6000"});
  Keep([&] { return cudaMemPoolDestroy(pool); });
  EXPECT_EQ(fake::cudaMemPoolDestroy::before, Lines{"PoolDestroy StreamOrdered cudaMemPoolDestroy handle=0x6000"});
}

TEST_F(RuntimeOther, MemoryOfAnotherProcess) {
  fake::cudaIpcOpenMemHandle::Answer(cudaSuccess, [](void** out, auto...) { *out = reinterpret_cast<void*>(0x7000); });
  fake::cudaIpcCloseMemHandle::Answer(cudaSuccess);
  void* address = nullptr;
  Keep([&] { return cudaIpcOpenMemHandle(&address, {}, 1); });
  EXPECT_EQ(Recorded(), Lines{"Import Device cudaIpcOpenMemHandle device=3 address=0x7000 size=4096"});
  Keep([&] { return cudaIpcCloseMemHandle(address); });
  EXPECT_EQ(fake::cudaIpcCloseMemHandle::before, Lines{"ImportClose Device cudaIpcCloseMemHandle address=0x7000"});
  fake::cudaIpcOpenMemHandle::Answer(cudaErrorInvalidValue);
  EXPECT_EQ(Keep([&] { return cudaIpcOpenMemHandle(&address, {}, 1); }), cudaErrorInvalidValue);
  EXPECT_EQ(Recorded(), Lines{});
}

}  // namespace
}  // namespace gpumemshim::hooks

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The driver's linear memory (shim/hooks/driver_memory.cc).

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using DriverMemory = HookTest;

void* const kHost = reinterpret_cast<void*>(0x9000);

TEST_F(DriverMemory, Alloc) {
  fake::cuMemAlloc_v2::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, size_t) { *out = 0x7000; });
  CUdeviceptr address = 0;
  EXPECT_EQ(Keep([&] { return cuMemAlloc_v2(&address, 512); }), CUDA_SUCCESS);
  EXPECT_EQ(address, 0x7000u);
  EXPECT_EQ(fake::cuMemAlloc_v2::before, Lines{});
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cuMemAlloc_v2 device=3 address=0x7000 size=512"});
}

TEST_F(DriverMemory, AllocOfTheFirstVersionHasAddressesOf32Bits) {
  fake::cuMemAlloc::Answer(CUDA_SUCCESS, [](CUdeviceptr_v1* out, unsigned int) { *out = 0xfffff000; });
  CUdeviceptr_v1 address[2] = {0, 0x1234};
  EXPECT_EQ(Keep([&] { return cuMemAlloc(address, 512); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cuMemAlloc device=3 address=0xfffff000 size=512"});
}

TEST_F(DriverMemory, AllocThatFails) {
  fake::cuMemAlloc_v2::Answer(CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr address = 0x1;
  EXPECT_EQ(Keep([&] { return cuMemAlloc_v2(&address, 512); }), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 0x1u);
  EXPECT_EQ(Recorded(), (Lines{"AllocFailed Device cuMemAlloc_v2 device=3 size=512 result=2",
                               "OomDevice Device device=3 size=1000 requested=4000 no stack"}));
  EXPECT_EQ(g_around.flushes, 1);
}

TEST_F(DriverMemory, AllocWithoutAnOutParameter) {
  fake::cuMemAlloc_v2::Answer(CUDA_SUCCESS);
  EXPECT_EQ(Keep([] { return cuMemAlloc_v2(nullptr, 512); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cuMemAlloc_v2 device=3 size=512"});
}

TEST_F(DriverMemory, PitchedMemoryHasTheSizeOfItsRows) {
  fake::cuMemAllocPitch_v2::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, size_t* pitch, size_t, size_t, unsigned int) {
    *out = 0x7000;
    if (pitch != nullptr) *pitch = 512;
  });
  CUdeviceptr address = 0;
  size_t pitch = 0;
  EXPECT_EQ(Keep([&] { return cuMemAllocPitch_v2(&address, &pitch, 100, 8, 4); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cuMemAllocPitch_v2 device=3 address=0x7000 size=4096 requested=800"});
  EXPECT_EQ(Keep([&] { return cuMemAllocPitch_v2(&address, nullptr, 100, 8, 4); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cuMemAllocPitch_v2 device=3 address=0x7000 size=800 requested=800"});
  fake::cuMemAllocPitch_v2::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([&] { return cuMemAllocPitch_v2(&address, &pitch, 100, 8, 4); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Recorded(), Lines{"AllocFailed Device cuMemAllocPitch_v2 device=3 size=800 result=1"});
}

TEST_F(DriverMemory, RowsOfMoreThan32Bits) {
  fake::cuMemAllocPitch::Answer(CUDA_SUCCESS,
                                [](CUdeviceptr_v1*, unsigned int* pitch, auto, auto, auto) { *pitch = 1 << 20; });
  CUdeviceptr_v1 address = 0x7000;
  unsigned int pitch = 0;
  EXPECT_EQ(Keep([&] { return cuMemAllocPitch(&address, &pitch, 1 << 20, 1 << 14, 4); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc Device cuMemAllocPitch device=3 address=0x7000 size=17179869184 "
                              "requested=17179869184"});
}

TEST_F(DriverMemory, Managed) {
  fake::cuMemAllocManaged::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, size_t, unsigned int) { *out = 0x7000; });
  CUdeviceptr address = 0;
  EXPECT_EQ(Keep([&] { return cuMemAllocManaged(&address, 512, CU_MEM_ATTACH_HOST); }), CUDA_SUCCESS);
  EXPECT_EQ(std::get<2>(fake::cuMemAllocManaged::given), unsigned{CU_MEM_ATTACH_HOST});
  EXPECT_EQ(Recorded(), Lines{"Alloc Managed cuMemAllocManaged device=3 address=0x7000 size=512"});
}

TEST_F(DriverMemory, PinnedMemory) {
  fake::cuMemAllocHost::Answer(CUDA_SUCCESS, [](void** out, unsigned int) { *out = kHost; });
  fake::cuMemAllocHost_v2::Answer(CUDA_SUCCESS, [](void** out, size_t) { *out = kHost; });
  fake::cuMemHostAlloc::Answer(CUDA_SUCCESS, [](void** out, size_t, unsigned int) { *out = kHost; });
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cuMemAllocHost(&address, 512); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc HostPinned cuMemAllocHost device=3 address=0x9000 size=512"});
  EXPECT_EQ(Keep([&] { return cuMemAllocHost_v2(&address, 512); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc HostPinned cuMemAllocHost_v2 device=3 address=0x9000 size=512"});
  EXPECT_EQ(Keep([&] { return cuMemHostAlloc(&address, 512, CU_MEMHOSTALLOC_PORTABLE); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc HostPinned cuMemHostAlloc device=3 address=0x9000 size=512"});
}

// No device's memory ran out, so none is named or asked.
TEST_F(DriverMemory, PinnedMemoryThatFails) {
  fake::cuMemHostAlloc::Answer(CUDA_ERROR_OUT_OF_MEMORY);
  void* address = nullptr;
  EXPECT_EQ(Keep([&] { return cuMemHostAlloc(&address, 512, 0); }), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Recorded(), Lines{"AllocFailed HostPinned cuMemHostAlloc size=512 result=2"});
}

TEST_F(DriverMemory, RegisteredMemory) {
  fake::cuMemHostRegister::Answer(CUDA_SUCCESS);
  fake::cuMemHostRegister_v2::Answer(CUDA_SUCCESS);
  fake::cuMemHostUnregister::Answer(CUDA_SUCCESS);
  EXPECT_EQ(Keep([] { return cuMemHostRegister(kHost, 512, 0); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"HostRegister HostPinned cuMemHostRegister device=3 address=0x9000 size=512"});
  EXPECT_EQ(Keep([] { return cuMemHostRegister_v2(kHost, 512, 0); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"HostRegister HostPinned cuMemHostRegister_v2 device=3 address=0x9000 size=512"});
  EXPECT_EQ(Keep([] { return cuMemHostUnregister(kHost); }), CUDA_SUCCESS);
  EXPECT_EQ(fake::cuMemHostUnregister::before, Lines{"HostUnregister HostPinned cuMemHostUnregister address=0x9000"});
}

// It is not a request for memory: what was not registered is not an event.
TEST_F(DriverMemory, RegisteringThatFails) {
  fake::cuMemHostRegister_v2::Answer(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(Keep([] { return cuMemHostRegister_v2(kHost, 512, 0); }), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverMemory, FreesAreRecordedBeforeTheCall) {
  fake::cuMemFree::Answer(CUDA_SUCCESS);
  fake::cuMemFree_v2::Answer(CUDA_SUCCESS);
  fake::cuMemFreeHost::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([] { return cuMemFree(0x7000); }), CUDA_SUCCESS);
  EXPECT_EQ(fake::cuMemFree::before, Lines{"Free Device cuMemFree address=0x7000"});
  EXPECT_EQ(Keep([] { return cuMemFree_v2(0x7000); }), CUDA_SUCCESS);
  EXPECT_EQ(fake::cuMemFree_v2::before, Lines{"Free Device cuMemFree_v2 address=0x7000"});
  EXPECT_EQ(Recorded(), Lines{});
  EXPECT_EQ(Keep([] { return cuMemFreeHost(kHost); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(fake::cuMemFreeHost::before, Lines{"Free HostPinned cuMemFreeHost address=0x9000"});
  EXPECT_EQ(Recorded(), Lines{"FreeFailed HostPinned cuMemFreeHost address=0x9000 result=1"});
}

TEST_F(DriverMemory, FreeingNothingIsNoEvent) {
  fake::cuMemFree_v2::Answer(CUDA_SUCCESS);
  fake::cuMemFreeHost::Answer(CUDA_SUCCESS);
  EXPECT_EQ(Keep([] { return cuMemFree_v2(0); }), CUDA_SUCCESS);
  EXPECT_EQ(Keep([] { return cuMemFreeHost(nullptr); }), CUDA_SUCCESS);
  EXPECT_EQ(fake::cuMemFree_v2::calls + fake::cuMemFreeHost::calls, 2);
  EXPECT_EQ(Recorded(), Lines{});
}

// Memory of other processes and libraries.

using DriverExternal = HookTest;

const auto kExternalMemory = MakeHandle<CUexternalMemory>(0xe000);

TEST_F(DriverExternal, MemoryOfAnotherProcessHasTheSizeThatTheDriverSays) {
  fake::cuIpcOpenMemHandle::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, auto...) { *out = 0x7000; });
  fake::cuIpcOpenMemHandle_v2::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, auto...) { *out = 0x7000; });
  CUdeviceptr address = 0;
  EXPECT_EQ(Keep([&] { return cuIpcOpenMemHandle(&address, {}, 1); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Import Device cuIpcOpenMemHandle device=3 address=0x7000 size=4096"});
  EXPECT_EQ(Keep([&] { return cuIpcOpenMemHandle_v2(&address, {}, 1); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Import Device cuIpcOpenMemHandle_v2 device=3 address=0x7000 size=4096"});
}

TEST_F(DriverExternal, WhatCouldNotBeOpenedIsNoEvent) {
  fake::cuIpcOpenMemHandle_v2::Answer(CUDA_ERROR_ALREADY_MAPPED);
  CUdeviceptr address = 0;
  EXPECT_EQ(Keep([&] { return cuIpcOpenMemHandle_v2(&address, {}, 1); }), CUDA_ERROR_ALREADY_MAPPED);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverExternal, Close) {
  fake::cuIpcCloseMemHandle::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([] { return cuIpcCloseMemHandle(0x7000); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(fake::cuIpcCloseMemHandle::before, Lines{"ImportClose Device cuIpcCloseMemHandle address=0x7000"});
  EXPECT_EQ(Recorded(), Lines{"FreeFailed Device cuIpcCloseMemHandle address=0x7000 result=1"});
}

TEST_F(DriverExternal, AnObjectHoldsTheBytesAndABufferIsAMapping) {
  fake::cuImportExternalMemory::Answer(CUDA_SUCCESS, [](CUexternalMemory* out, auto) { *out = kExternalMemory; });
  fake::cuExternalMemoryGetMappedBuffer::Answer(CUDA_SUCCESS, [](CUdeviceptr* out, auto...) { *out = 0x7000; });
  fake::cuDestroyExternalMemory::Answer(CUDA_SUCCESS);
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC object{};
  object.size = 8192;
  CUexternalMemory memory = nullptr;
  Keep([&] { return cuImportExternalMemory(&memory, &object); });
  EXPECT_EQ(Recorded(), Lines{"Import External cuImportExternalMemory device=3 size=8192 handle=0xe000"});
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer{};
  buffer.size = 512;
  CUdeviceptr address = 0;
  Keep([&] { return cuExternalMemoryGetMappedBuffer(&address, memory, &buffer); });
  EXPECT_EQ(Recorded(),
            Lines{"Map External cuExternalMemoryGetMappedBuffer device=3 address=0x7000 size=512 handle=0xe000"});
  Keep([&] { return cuDestroyExternalMemory(memory); });
  EXPECT_EQ(fake::cuDestroyExternalMemory::before, Lines{"ImportClose External cuDestroyExternalMemory handle=0xe000"});
}

TEST_F(DriverExternal, AnArrayOfAnObjectHasNoBytesOfItsOwn) {
  fake::cuExternalMemoryGetMappedMipmappedArray::Answer(
      CUDA_SUCCESS, [](CUmipmappedArray* out, auto...) { *out = MakeHandle<CUmipmappedArray>(0xa000); });
  CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC desc{};
  desc.arrayDesc.Width = 64;
  CUmipmappedArray array = nullptr;
  Keep([&] { return cuExternalMemoryGetMappedMipmappedArray(&array, kExternalMemory, &desc); });
  EXPECT_EQ(Recorded(), Lines{"Import Array cuExternalMemoryGetMappedMipmappedArray device=3 address=0xa000 "
                              "handle=0xe000"});
}

TEST_F(DriverExternal, WithoutDescriptorsAndOutParameters) {
  fake::cuImportExternalMemory::Answer(CUDA_SUCCESS);
  fake::cuExternalMemoryGetMappedBuffer::Answer(CUDA_SUCCESS);
  Keep([] { return cuImportExternalMemory(nullptr, nullptr); });
  EXPECT_EQ(Recorded(), Lines{"Import External cuImportExternalMemory device=3"});
  Keep([] { return cuExternalMemoryGetMappedBuffer(nullptr, kExternalMemory, nullptr); });
  EXPECT_EQ(Recorded(), Lines{"Map External cuExternalMemoryGetMappedBuffer device=3 handle=0xe000"});
}

}  // namespace

}  // namespace gpumemshim::hooks

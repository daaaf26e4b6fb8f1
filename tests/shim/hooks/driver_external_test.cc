// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// Memory of other processes and libraries (shim/hooks/driver_external.cc).

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

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

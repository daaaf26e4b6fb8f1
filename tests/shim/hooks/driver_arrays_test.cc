// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// The driver's arrays and mipmaps (shim/hooks/driver_arrays.cc).

#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

using DriverArrays = HookTest;

const auto kArray = MakeHandle<CUarray>(0xa000);
const auto kMipmap = MakeHandle<CUmipmappedArray>(0xa001);

CUDA_ARRAY3D_DESCRIPTOR Cube(unsigned int flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR desc{};
  desc.Width = desc.Height = desc.Depth = 8;
  desc.Format = CU_AD_FORMAT_FLOAT;
  desc.NumChannels = 1;
  desc.Flags = flags;
  return desc;
}

TEST_F(DriverArrays, SizesComeFromTheDescriptor) {
  fake::cuArrayCreate_v2::Answer(CUDA_SUCCESS, [](CUarray* out, auto) { *out = kArray; });
  fake::cuArray3DCreate_v2::Answer(CUDA_SUCCESS, [](CUarray* out, auto) { *out = kArray; });
  CUDA_ARRAY_DESCRIPTOR flat{};
  flat.Width = 64;
  flat.Height = 16;
  flat.Format = CU_AD_FORMAT_HALF;
  flat.NumChannels = 4;
  CUarray array = nullptr;
  EXPECT_EQ(Keep([&] { return cuArrayCreate_v2(&array, &flat); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc Array cuArrayCreate_v2 device=3 address=0xa000 size=8192"});
  const CUDA_ARRAY3D_DESCRIPTOR cube = Cube();
  EXPECT_EQ(Keep([&] { return cuArray3DCreate_v2(&array, &cube); }), CUDA_SUCCESS);
  EXPECT_EQ(Recorded(), Lines{"Alloc Array cuArray3DCreate_v2 device=3 address=0xa000 size=2048"});
}

TEST_F(DriverArrays, FirstVersions) {
  fake::cuArrayCreate::Answer(CUDA_SUCCESS, [](CUarray* out, auto) { *out = kArray; });
  fake::cuArray3DCreate::Answer(CUDA_SUCCESS, [](CUarray* out, auto) { *out = kArray; });
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR_v1 flat = {64, 16, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  Keep([&] { return cuArrayCreate(&array, &flat); });
  EXPECT_EQ(Recorded(), Lines{"Alloc Array cuArrayCreate device=3 address=0xa000 size=1024"});
  const CUDA_ARRAY3D_DESCRIPTOR_v1 cube = {8, 8, 8, CU_AD_FORMAT_FLOAT, 1, 0};
  Keep([&] { return cuArray3DCreate(&array, &cube); });
  EXPECT_EQ(Recorded(), Lines{"Alloc Array cuArray3DCreate device=3 address=0xa000 size=2048"});
}

TEST_F(DriverArrays, SparseArraysHaveNoMemoryYet) {
  fake::cuArray3DCreate_v2::Answer(CUDA_SUCCESS, [](CUarray* out, auto) { *out = kArray; });
  CUarray array = nullptr;
  for (const unsigned int flag : {CUDA_ARRAY3D_SPARSE, CUDA_ARRAY3D_DEFERRED_MAPPING}) {
    const CUDA_ARRAY3D_DESCRIPTOR cube = Cube(flag);
    Keep([&] { return cuArray3DCreate_v2(&array, &cube); });
    EXPECT_EQ(Recorded(), Lines{"Alloc Array cuArray3DCreate_v2 device=3 address=0xa000 requested=2048"});
  }
}

TEST_F(DriverArrays, Mipmaps) {
  fake::cuMipmappedArrayCreate::Answer(CUDA_SUCCESS, [](CUmipmappedArray* out, auto...) { *out = kMipmap; });
  fake::cuMipmappedArrayDestroy::Answer(CUDA_SUCCESS);
  const CUDA_ARRAY3D_DESCRIPTOR cube = Cube();
  CUmipmappedArray mipmap = nullptr;
  Keep([&] { return cuMipmappedArrayCreate(&mipmap, &cube, 2); });
  EXPECT_EQ(Recorded(), Lines{"Alloc Array cuMipmappedArrayCreate device=3 address=0xa001 size=2304"});
  Keep([&] { return cuMipmappedArrayDestroy(mipmap); });
  EXPECT_EQ(fake::cuMipmappedArrayDestroy::before, Lines{"Free Array cuMipmappedArrayDestroy address=0xa001"});
}

TEST_F(DriverArrays, AnArrayThatFails) {
  fake::cuArray3DCreate_v2::Answer(CUDA_ERROR_OUT_OF_MEMORY);
  const CUDA_ARRAY3D_DESCRIPTOR cube = Cube();
  CUarray array = nullptr;
  EXPECT_EQ(Keep([&] { return cuArray3DCreate_v2(&array, &cube); }), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(Recorded(), (Lines{"AllocFailed Array cuArray3DCreate_v2 device=3 size=2048 result=2",
                               "OomDevice Device device=3 size=1000 requested=4000 no stack"}));
}

TEST_F(DriverArrays, Destroy) {
  fake::cuArrayDestroy::Answer(CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Keep([] { return cuArrayDestroy(kArray); }), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(fake::cuArrayDestroy::before, Lines{"Free Array cuArrayDestroy address=0xa000"});
  EXPECT_EQ(Recorded(), Lines{"FreeFailed Array cuArrayDestroy address=0xa000 result=400"});
  EXPECT_EQ(Keep([] { return cuArrayDestroy(nullptr); }), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(Recorded(), Lines{});
}

TEST_F(DriverArrays, EachArrayOfAListIsMappedOrUnmapped) {
  CUarrayMapInfo list[2] = {};
  list[0].resourceType = CU_RESOURCE_TYPE_ARRAY;
  list[0].resource.array = kArray;
  list[0].memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  list[0].memHandle.memHandle = 0x8000;
  list[1].resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  list[1].resource.mipmap = kMipmap;
  list[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  list[1].memHandle.memHandle = 0x8000;  // to be ignored
  const auto stream = MakeHandle<CUstream>(0x5000);
  fake::cuMemMapArrayAsync::Answer(CUDA_SUCCESS);
  EXPECT_EQ(Keep([&] { return cuMemMapArrayAsync(list, 2, stream); }), CUDA_SUCCESS);
  EXPECT_EQ(fake::cuMemMapArrayAsync::before, Lines{});
  EXPECT_EQ(Recorded(), (Lines{"Map Array cuMemMapArrayAsync device=3 address=0xa000 stream=0x5000 handle=0x8000",
                               "Unmap Array cuMemMapArrayAsync device=3 address=0xa001 stream=0x5000"}));
  fake::cuMemMapArrayAsync_ptsz::Answer(CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Keep([&] { return cuMemMapArrayAsync_ptsz(list, 2, stream); }), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Recorded(), Lines{});
}

}  // namespace
}  // namespace gpumemshim::hooks

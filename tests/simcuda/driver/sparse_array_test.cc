// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "tests/simcuda/driver/memory_fixture.h"

namespace simcuda {
namespace {

using testing::ElementsAre;

CUarrayMapInfo TileAt(CUmipmappedArray array, unsigned x, CUmemOperationType operation,
                      CUmemGenericAllocationHandle memory) {
  CUarrayMapInfo info{};
  info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  info.resource.mipmap = array;
  info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  info.subresource.sparseLevel.offsetX = x;
  info.subresource.sparseLevel.extentWidth = 128;
  info.subresource.sparseLevel.extentHeight = 128;
  info.subresource.sparseLevel.extentDepth = 1;
  info.memOperationType = operation;
  info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  info.memHandle.memHandle = memory;
  info.deviceBitMask = 1;
  return info;
}

void MapTiles() {
  UsePrimaryContext();
  const size_t free_before = FreeBytes();
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = shape.Height = 4096;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = CUDA_ARRAY3D_SPARSE;
  CUmipmappedArray array = nullptr;
  ASSERT_EQ(cuMipmappedArrayCreate(&array, &shape, 8), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before);
  CUDA_ARRAY_SPARSE_PROPERTIES properties{};
  ASSERT_EQ(cuMipmappedArrayGetSparseProperties(&properties, array), CUDA_SUCCESS);
  EXPECT_EQ(properties.tileExtent.width, 128u);
  EXPECT_EQ(properties.tileExtent.height, 128u);
  EXPECT_EQ(properties.miptailFirstLevel, 6u);  // 4096 >> 6 = 64
  const CUmemGenericAllocationHandle memory = CreateMemory(2 * kMebibyte);
  CUarrayMapInfo both[] = {TileAt(array, 0, CU_MEM_OPERATION_TYPE_MAP, memory),
                           TileAt(array, 128, CU_MEM_OPERATION_TYPE_MAP, memory)};
  EXPECT_EQ(cuMemMapArrayAsync(both, 2, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMapArrayAsync(both, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(memory), CUDA_SUCCESS);
  CUarrayMapInfo first = TileAt(array, 0, CU_MEM_OPERATION_TYPE_UNMAP, 0);
  EXPECT_EQ(cuMemMapArrayAsync(&first, 1, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before - 2 * kMebibyte);  // one tile still uses it
  EXPECT_EQ(cuMipmappedArrayDestroy(array), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before);
}

TEST(SparseArrayTest, HasTheMemoryThatIsMappedIntoIt) {
  EXPECT_THAT(KindsOf("sparse", MapTiles), ElementsAre("sparse_create", "create", "array_map", "array_map", "release",
                                                       "array_unmap", "sparse_destroy", "physical_free"));
}

TEST(SparseArrayTest, OtherArraysHaveNoTiles) {
  EXPECT_EQ(RunInChild({},
                       [] {
                         UsePrimaryContext();
                         CUDA_ARRAY3D_DESCRIPTOR shape{};
                         shape.Width = 64;
                         shape.Format = CU_AD_FORMAT_FLOAT;
                         shape.NumChannels = 1;
                         CUarray array = nullptr;
                         CUDA_ARRAY_SPARSE_PROPERTIES properties;
                         ASSERT_EQ(cuArray3DCreate(&array, &shape), CUDA_SUCCESS);
                         EXPECT_EQ(cuArrayGetSparseProperties(&properties, array), CUDA_ERROR_INVALID_VALUE);
                       }),
            0);
}

}  // namespace
}  // namespace simcuda

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include <fcntl.h>
#include <sys/mman.h>

#include "tests/simcuda/driver/memory_fixture.h"

namespace simcuda {
namespace {

using testing::ElementsAre;

void MapBufferAndArray() {
  UsePrimaryContext();
  const size_t free_before = FreeBytes();
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC description{};
  description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  description.size = 8 * kMebibyte;
  description.handle.fd = -1;
  CUexternalMemory memory = nullptr;
  EXPECT_EQ(cuImportExternalMemory(&memory, &description), CUDA_ERROR_INVALID_VALUE);
  description.handle.fd = ::memfd_create("test", 0);
  ASSERT_EQ(cuImportExternalMemory(&memory, &description), CUDA_SUCCESS);
  EXPECT_NE(::fcntl(description.handle.fd, F_GETFD), 0);  // the descriptor was taken
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer{};
  buffer.offset = 4 * kMebibyte;
  buffer.size = 5 * kMebibyte;
  CUdeviceptr pointer = 0, base = 0;
  size_t bytes = 0;
  EXPECT_EQ(cuExternalMemoryGetMappedBuffer(&pointer, memory, &buffer), CUDA_ERROR_INVALID_VALUE);
  buffer.size = kMebibyte;
  ASSERT_EQ(cuExternalMemoryGetMappedBuffer(&pointer, memory, &buffer), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, pointer + 100), CUDA_SUCCESS);
  EXPECT_EQ(bytes, kMebibyte);
  CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC array{};
  array.arrayDesc.Width = array.arrayDesc.Height = 64;
  array.arrayDesc.Format = CU_AD_FORMAT_FLOAT;
  array.arrayDesc.NumChannels = 1;
  array.numLevels = 2;
  CUmipmappedArray mipmap = nullptr;
  CUarray level = nullptr;
  ASSERT_EQ(cuExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &array), CUDA_SUCCESS);
  EXPECT_EQ(cuMipmappedArrayGetLevel(&level, mipmap, 1), CUDA_SUCCESS);
  EXPECT_EQ(FreeBytes(), free_before);  // none of it is ours
  EXPECT_EQ(cuMipmappedArrayDestroy(mipmap), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(pointer), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(pointer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDestroyExternalMemory(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(FreeBytes(), free_before);
}

TEST(ExternalMemoryTest, IsMappedAndChargedToNobody) {
  EXPECT_THAT(KindsOf("external", MapBufferAndArray),
              ElementsAre("external_import", "external_map", "external_map", "external_unmap", "external_unmap",
                          "free_failed", "external_destroy"));
}

}  // namespace
}  // namespace simcuda

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Bytes of a CUDA array as its description states them. The driver adds alignment, which it tells only later.
//
// Thread-safety: pure. Failure: a format that is not known counts as one byte an element.
//
//   ArrayBytes({.width = 64, .height = 64, .depth = 0, .element_bytes = 4});   // 16384: a dimension of 0 counts as 1
//   MipmapBytes(same, 3);                                                      // 16384 + 4096 + 1024

#ifndef GPUMEM_SHIM_HOOKS_ARRAY_SIZE_H_
#define GPUMEM_SHIM_HOOKS_ARRAY_SIZE_H_

#include <cstdint>

#include "shim/hooks/cuda_api.h"

namespace gpumemshim::hooks {

struct ArrayShape {
  uint64_t width;
  uint64_t height;
  uint64_t depth;
  uint64_t element_bytes;
};

constexpr uint64_t AtLeastOne(uint64_t value) { return value == 0 ? 1 : value; }

constexpr uint64_t ArrayBytes(const ArrayShape& shape) {
  return AtLeastOne(shape.width) * AtLeastOne(shape.height) * AtLeastOne(shape.depth) * AtLeastOne(shape.element_bytes);
}

constexpr uint64_t MipmapBytes(ArrayShape shape, uint32_t levels) {
  uint64_t bytes = 0;
  for (uint32_t level = 0; level < levels && level < 32; ++level) {
    bytes += ArrayBytes(shape);
    shape.width /= 2;
    shape.height /= 2;
    shape.depth /= 2;
  }
  return bytes;
}

constexpr uint64_t FormatBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 1;
  }
}

// Formats that name their channels have all of them in the format; normalized ones say so in their names.
constexpr uint64_t ElementBytes(CUarray_format format, uint64_t channels) {
  switch (format) {
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
      return 1;
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
      return 2;
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
      return 4;
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return 8;
    default:
      return FormatBytes(format) * AtLeastOne(channels);
  }
}

constexpr uint64_t ElementBytes(const cudaChannelFormatDesc& desc) {
  return static_cast<uint64_t>(desc.x + desc.y + desc.z + desc.w) / 8;
}

}  // namespace gpumemshim::hooks

#endif  // GPUMEM_SHIM_HOOKS_ARRAY_SIZE_H_

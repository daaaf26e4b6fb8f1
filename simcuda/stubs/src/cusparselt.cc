// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuSPARSELt's sizes. A 2:4 compressed matrix keeps half of the values plus two bits a kept value; the shape is kept in
// the caller's own opaque descriptor (512 bytes or more by the documentation).
// SIMCUDA_CUSPARSELT_WS: bytes of workspace and of the compression buffer.
#include <string.h>

#include "stub.h"

namespace {

enum Status { kSuccess = 0, kInvalidValue = 3 };

struct Shape {
  int64_t rows, columns;
  size_t element_size;
};

size_t SizeOf(int cuda_data_type) {
  switch (cuda_data_type) {
    case 3:   // CUDA_R_8I
    case 28:  // CUDA_R_8F_E4M3
    case 29:  // CUDA_R_8F_E5M2
      return 1;
    case 0:  // CUDA_R_32F
      return 4;
    default:
      return 2;  // half, bfloat16
  }
}

}  // namespace

STUB_API int cusparseLtStructuredDescriptorInit(const void*, void* descriptor, int64_t rows, int64_t columns, int64_t,
                                                uint32_t, int type, int, int) {
  if (descriptor == nullptr) return kInvalidValue;
  const Shape shape{rows, columns, SizeOf(type)};
  memcpy(descriptor, &shape, sizeof(shape));
  return kSuccess;
}
STUB_API int cusparseLtSpMMACompressedSize2(const void*, const void* descriptor, size_t* compressed, size_t* buffer) {
  if (descriptor == nullptr || compressed == nullptr) return kInvalidValue;
  Shape shape;
  memcpy(&shape, descriptor, sizeof(shape));
  const size_t kept = static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.columns) / 2;
  *compressed = kept * shape.element_size + (kept + 3) / 4;
  if (buffer != nullptr)
    *buffer = stub_workspace("SIMCUDA_CUSPARSELT_WS", "cuSPARSELt", nullptr, "compress", "", SIMCUDA_NO_BOUND);
  return kSuccess;
}
STUB_API int cusparseLtMatmulGetWorkspace(const void*, const void*, size_t* size) {
  if (size == nullptr) return kInvalidValue;
  *size = stub_workspace("SIMCUDA_CUSPARSELT_WS", "cuSPARSELt", nullptr, "matmul", "", SIMCUDA_NO_BOUND);
  return kSuccess;
}

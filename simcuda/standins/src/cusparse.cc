// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuSPARSE's sparse matrix descriptors: they remember rows, columns and non-zeros, since callers ask for them back.
// A product's number of non-zeros stays what its creator said (usually 0), for nothing is computed.
#include "standin.h"

namespace {

enum Status { kSuccess = 0, kAllocFailed = 2, kInvalidValue = 3 };

struct SparseMatrix {
  int64_t rows, columns, nonzeros;
};

int Create(void** out, int64_t rows, int64_t columns, int64_t nonzeros) {
  if (out == nullptr) return kInvalidValue;
  auto* matrix = static_cast<SparseMatrix*>(standin_handle());
  if (matrix == nullptr) return kAllocFailed;
  *matrix = SparseMatrix{rows, columns, nonzeros};
  *out = matrix;
  return kSuccess;
}

}  // namespace

STANDIN_API int cusparseCreateCsr(void** out, int64_t rows, int64_t columns, int64_t nonzeros, void*, void*, void*, int,
                                  int, int, int) {
  return Create(out, rows, columns, nonzeros);
}
STANDIN_API int cusparseCreateConstCsr(void** out, int64_t rows, int64_t columns, int64_t nonzeros, const void*,
                                       const void*, const void*, int, int, int, int) {
  return Create(out, rows, columns, nonzeros);
}
STANDIN_API int cusparseCreateCsc(void** out, int64_t rows, int64_t columns, int64_t nonzeros, void*, void*, void*, int,
                                  int, int, int) {
  return Create(out, rows, columns, nonzeros);
}
STANDIN_API int cusparseCreateCoo(void** out, int64_t rows, int64_t columns, int64_t nonzeros, void*, void*, void*, int,
                                  int, int) {
  return Create(out, rows, columns, nonzeros);
}
STANDIN_API int cusparseCreateBsr(void** out, int64_t block_rows, int64_t block_columns, int64_t blocks,
                                  int64_t row_block, int64_t column_block, void*, void*, void*, int, int, int, int,
                                  int) {
  return Create(out, block_rows * row_block, block_columns * column_block, blocks * row_block * column_block);
}
STANDIN_API int cusparseDestroySpMat(void* matrix) {
  standin_release(matrix);
  return kSuccess;
}
STANDIN_API int cusparseSpMatGetSize(const void* matrix, int64_t* rows, int64_t* columns, int64_t* nonzeros) {
  if (matrix == nullptr || rows == nullptr || columns == nullptr || nonzeros == nullptr) return kInvalidValue;
  const auto* sparse = static_cast<const SparseMatrix*>(matrix);
  *rows = sparse->rows;
  *columns = sparse->columns;
  *nonzeros = sparse->nonzeros;
  return kSuccess;
}

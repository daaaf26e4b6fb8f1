// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// cuSPARSE's matrix and vector descriptors: they remember their sizes, since callers ask for them back and buffers
// depend on them. A product's number of non-zeros stays what its creator said (usually 0), for nothing is computed.
//
// Thread-safety: a descriptor is one thread's. Failure: kInvalidValue for a null pointer, kAllocFailed.
#include <stdio.h>

#include "stub.h"

namespace {

enum Status { kSuccess = 0, kAllocFailed = 2, kInvalidValue = 3 };

struct Matrix {
  int64_t rows, columns, nonzeros;  // a dense one: -1 non-zeros
  int type;                         // cudaDataType of its values
};

int Create(void** out, const Matrix& matrix) {
  if (out == nullptr) return kInvalidValue;
  auto* kept = static_cast<Matrix*>(stub_handle());
  if (kept == nullptr) return kAllocFailed;
  *kept = matrix;
  *out = kept;
  return kSuccess;
}

int Destroy(void* matrix) {
  stub_release(matrix);
  return kSuccess;
}

// Its values and 64-bit indices once more, as a rearranged copy would need; a dense one's values.
uint64_t Bytes(const Matrix& matrix) {
  const uint64_t value = stub_type_bytes(matrix.type), rows = static_cast<uint64_t>(matrix.rows);
  if (matrix.nonzeros < 0) return rows * static_cast<uint64_t>(matrix.columns) * value;
  return static_cast<uint64_t>(matrix.nonzeros) * (value + 2 * sizeof(int64_t)) + (rows + 1) * sizeof(int64_t);
}

// An operation on up to three matrices, and what else its buffer depends on.
struct Operation {
  const char* name;
  const void* matrices[3];
  int choices[4];  // operations on A and B, type of the computation, algorithm
  bool is_product_sparse;
};

int WriteSize(const Operation& operation, size_t* size) {
  if (size == nullptr) return kInvalidValue;
  constexpr int kBytes = 256;
  char text[kBytes] = "";
  int used = 0;
  uint64_t bound = 0;
  for (const void* handle : operation.matrices) {
    if (handle == nullptr) continue;
    const auto* matrix = static_cast<const Matrix*>(handle);
    bound += Bytes(*matrix);
    if (used < kBytes) {
      used += snprintf(text + used, static_cast<size_t>(kBytes - used), "%lldx%lld/%lld type %d, ",
                       static_cast<long long>(matrix->rows), static_cast<long long>(matrix->columns),
                       static_cast<long long>(matrix->nonzeros), matrix->type);
    }
  }
  const int* c = operation.choices;
  if (used < kBytes) snprintf(text + used, static_cast<size_t>(kBytes - used), "%d %d %d %d", c[0], c[1], c[2], c[3]);
  *size = stub_workspace("SIMCUDA_CUSPARSE_WS", "cuSPARSE", nullptr, operation.name, text,
                         operation.is_product_sparse ? SIMCUDA_NO_BOUND : bound);
  return kSuccess;
}

}  // namespace

STUB_API int cusparseCreateCsr(void** out, int64_t rows, int64_t columns, int64_t nonzeros, void*, void*, void*, int,
                               int, int, int type) {
  return Create(out, {rows, columns, nonzeros, type});
}
STUB_API int cusparseCreateConstCsr(void** out, int64_t rows, int64_t columns, int64_t nonzeros, const void*,
                                    const void*, const void*, int, int, int, int type) {
  return Create(out, {rows, columns, nonzeros, type});
}
STUB_API int cusparseCreateCsc(void** out, int64_t rows, int64_t columns, int64_t nonzeros, void*, void*, void*, int,
                               int, int, int type) {
  return Create(out, {rows, columns, nonzeros, type});
}
STUB_API int cusparseCreateCoo(void** out, int64_t rows, int64_t columns, int64_t nonzeros, void*, void*, void*, int,
                               int, int type) {
  return Create(out, {rows, columns, nonzeros, type});
}
STUB_API int cusparseCreateBsr(void** out, int64_t block_rows, int64_t block_columns, int64_t blocks, int64_t row_block,
                               int64_t column_block, void*, void*, void*, int, int, int, int type, int) {
  return Create(out, {block_rows * row_block, block_columns * column_block, blocks * row_block * column_block, type});
}
STUB_API int cusparseDestroySpMat(void* matrix) { return Destroy(matrix); }
STUB_API int cusparseSpMatGetSize(const void* matrix, int64_t* rows, int64_t* columns, int64_t* nonzeros) {
  if (matrix == nullptr || rows == nullptr || columns == nullptr || nonzeros == nullptr) return kInvalidValue;
  const auto* sparse = static_cast<const Matrix*>(matrix);
  *rows = sparse->rows;
  *columns = sparse->columns;
  *nonzeros = sparse->nonzeros;
  return kSuccess;
}

STUB_API int cusparseCreateDnMat(void** out, int64_t rows, int64_t columns, int64_t, void*, int type, int) {
  return Create(out, {rows, columns, -1, type});
}
STUB_API int cusparseCreateConstDnMat(void** out, int64_t rows, int64_t columns, int64_t, const void*, int type, int) {
  return Create(out, {rows, columns, -1, type});
}
STUB_API int cusparseDestroyDnMat(void* matrix) { return Destroy(matrix); }
STUB_API int cusparseCreateDnVec(void** out, int64_t size, void*, int type) { return Create(out, {size, 1, -1, type}); }
STUB_API int cusparseCreateConstDnVec(void** out, int64_t size, const void*, int type) {
  return Create(out, {size, 1, -1, type});
}
STUB_API int cusparseDestroyDnVec(void* vector) { return Destroy(vector); }

STUB_API int cusparseSpMV_bufferSize(void*, int op, const void*, const void* a, const void* x, const void*,
                                     const void* y, int type, int algorithm, size_t* size) {
  return WriteSize({"SpMV", {a, x, y}, {op, 0, type, algorithm}, false}, size);
}
STUB_API int cusparseSpMM_bufferSize(void*, int op_a, int op_b, const void*, const void* a, const void* b, const void*,
                                     const void* c, int type, int algorithm, size_t* size) {
  return WriteSize({"SpMM", {a, b, c}, {op_a, op_b, type, algorithm}, false}, size);
}
STUB_API int cusparseSDDMM_bufferSize(void*, int op_a, int op_b, const void*, const void* a, const void* b, const void*,
                                      const void* c, int type, int algorithm, size_t* size) {
  return WriteSize({"SDDMM", {a, b, c}, {op_a, op_b, type, algorithm}, false}, size);
}
STUB_API int cusparseSpSV_bufferSize(void*, int op, const void*, const void* a, const void* x, const void* y, int type,
                                     int algorithm, void*, size_t* size) {
  return WriteSize({"SpSV", {a, x, y}, {op, 0, type, algorithm}, false}, size);
}
STUB_API int cusparseSpSM_bufferSize(void*, int op_a, int op_b, const void*, const void* a, const void* b,
                                     const void* c, int type, int algorithm, void*, size_t* size) {
  return WriteSize({"SpSM", {a, b, c}, {op_a, op_b, type, algorithm}, false}, size);
}
STUB_API int cusparseSpGEMM_workEstimation(void*, int op_a, int op_b, const void*, const void* a, const void* b,
                                           const void*, const void* c, int type, int algorithm, void*, size_t* size,
                                           void*) {
  return WriteSize({"SpGEMM_workEstimation", {a, b, c}, {op_a, op_b, type, algorithm}, true}, size);
}
STUB_API int cusparseSpGEMM_compute(void*, int op_a, int op_b, const void*, const void* a, const void* b, const void*,
                                    const void* c, int type, int algorithm, void*, size_t* size, void*) {
  return WriteSize({"SpGEMM_compute", {a, b, c}, {op_a, op_b, type, algorithm}, true}, size);
}
STUB_API int cusparseSparseToDense_bufferSize(void*, const void* a, const void* b, int algorithm, size_t* size) {
  return WriteSize({"SparseToDense", {a, b, nullptr}, {0, 0, 0, algorithm}, false}, size);
}
STUB_API int cusparseDenseToSparse_bufferSize(void*, const void* a, const void* b, int algorithm, size_t* size) {
  return WriteSize({"DenseToSparse", {a, b, nullptr}, {0, 0, 0, algorithm}, false}, size);
}
